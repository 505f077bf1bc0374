// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"fmt"
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"
)

// byteScales are the 1024-based suffixes, each 1024 times the one before; the
// first stands for no suffix.
const byteScales = " kmgtpezy"

// byteEndings may follow the scale; longest first, as only one is taken off.
func byteEndings() []string {
	return []string{"ibytes", "ibyte", "ib", "bytes", "byte", "b"}
}

// ParseBytes reads a number of bytes the way the manager does (26.8): "1g",
// "512m", "1.5 KiB", "2048 bytes", a plain integer, or an infinity. Fractions
// of a byte are dropped; "1.5" without a unit and "10b" are errors.
func ParseBytes(text string) (Amount, error) {
	switch strings.ToLower(text) {
	case "inf", "infinite", "infinity":
		return ParseAmount("Infinity")
	}
	return ParseFiniteBytes(text)
}

// ParseFiniteBytes is [ParseBytes] without infinities.
func ParseFiniteBytes(text string) (Amount, error) {
	bad := func(why string) (Amount, error) {
		return Amount{}, fmt.Errorf("%q: %s; write bytes as 1073741824, 512m or 1g: %w", shorten(text), why, ErrAmount)
	}
	s := strings.ToLower(asciiDigits(strings.ReplaceAll(strings.TrimSpace(text), "_", "")))
	if whole, ok := wholeNumber(s); ok {
		return whole, nil
	}
	for _, ending := range byteEndings() {
		if rest, found := strings.CutSuffix(s, ending); found {
			s = rest
			break
		}
	}
	last, size := utf8.DecodeLastRuneInString(s)
	if size == 0 {
		return bad("no number")
	}
	if unicode.IsNumber(last) {
		return bad("not a whole number of bytes")
	}
	power := strings.IndexRune(byteScales, last)
	if power < 0 {
		return bad("unknown unit")
	}
	number, err := ParseAmount(s[:len(s)-size])
	if err != nil || number.IsInfinite() {
		return bad("no number before the unit")
	}
	return number.scaled(power), nil
}

// wholeNumber reads an integer, or a plain decimal with nothing after the
// point such as 536870912.000000 (26.x).
func wholeNumber(s string) (Amount, bool) {
	if strings.Trim(s, "+-.0123456789") != "" {
		return Amount{}, false
	}
	a, err := ParseAmount(s)
	if err != nil || !a.IsWhole() {
		return Amount{}, false
	}
	return a.canonical(), true
}

// scaled is a·1024^power, cut to an integer.
func (a Amount) scaled(power int) Amount {
	c := exact()
	var product, factor Amount
	factor = fromBig(scaleOf(power))
	_, _ = c.Mul(&product.dec, &a.dec, &factor.dec)
	return fromBig(product.bigInt())
}

func scaleOf(power int) *big.Int { return new(big.Int).Lsh(big.NewInt(1), uint(10*power)) }

// FormatBytes writes a number of bytes with the largest unit that fits and at
// most two decimals, as the reference does in resource.txt: 1536 is "1.5k".
// It loses digits, and it is an error for 2^90 bytes and more.
func FormatBytes(a Amount) (string, error) {
	n, power, err := largestUnit(a)
	if err != nil {
		return "", err
	}
	text := divided(n, power)
	if power == 0 {
		return text, nil
	}
	return text + byteScales[power:power+1], nil
}

// FormatBytesIn writes a number of bytes in the given unit (one of k, m, g, t,
// p, e, z, y, or a space for bytes): 16 MiB in g is "0.02g".
func FormatBytesIn(a Amount, unit byte) (string, error) {
	power := strings.IndexByte(byteScales, unit)
	if power < 0 {
		return "", fmt.Errorf("unit %q: unknown; use one of k m g t p e z y: %w", unit, ErrAmount)
	}
	if a.IsInfinite() {
		return "", fmt.Errorf("%s bytes: not finite: %w", a, ErrAmount)
	}
	text := divided(a.bigInt(), power)
	if power == 0 {
		return text, nil
	}
	return text + string(unit), nil
}

// HumanBytes writes a number of bytes for people: "1 byte", "1.5 KiB".
func HumanBytes(a Amount) (string, error) {
	n, power, err := largestUnit(a)
	if err != nil {
		return "", err
	}
	text := divided(n, power)
	switch {
	case power > 0:
		return text + " " + strings.ToUpper(byteScales[power:power+1]) + "iB", nil
	case text == "1":
		return "1 byte", nil
	default:
		return text + " bytes", nil
	}
}

// largestUnit finds the unit; negative numbers are never scaled.
func largestUnit(a Amount) (n *big.Int, power int, err error) {
	if a.IsInfinite() {
		return nil, 0, fmt.Errorf("%s bytes: not finite: %w", a, ErrAmount)
	}
	n = a.bigInt()
	if n.Sign() <= 0 {
		return n, 0, nil
	}
	power = (n.BitLen() - 1) / 10
	if power >= len(byteScales) {
		return nil, 0, fmt.Errorf("%s bytes: too large for a unit: %w", a, ErrAmount)
	}
	return n, power, nil
}

// divided writes n/1024^power, rounded half-even to two decimals without
// trailing zeros. A negative number keeps its sign even if it rounds to 0.
func divided(n *big.Int, power int) string {
	magnitude := new(big.Int).Abs(n)
	scale := scaleOf(power)
	hundredths, rest := new(big.Int).QuoRem(new(big.Int).Mul(magnitude, big.NewInt(100)), scale, new(big.Int))
	half := rest.Lsh(rest, 1).Cmp(scale)
	if half > 0 || half == 0 && hundredths.Bit(0) == 1 {
		hundredths.Add(hundredths, big.NewInt(1))
	}
	text := positional(fmt.Sprintf("%03s", hundredths.String()), -2)
	text = stripZeros(text)
	if n.Sign() < 0 {
		return "-" + text
	}
	return text
}
