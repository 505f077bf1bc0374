// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"

	"github.com/cockroachdb/apd/v3"
)

// ErrAmount says that a text is not an amount.
var ErrAmount = errors.New("not an amount")

const (
	// maxDigits and maxAdjusted bound what is accepted: an amount such as
	// 1E+999999999 is short to write and would fill the memory when added.
	maxDigits   = 64
	maxAdjusted = 64
)

// Amount is an exact decimal: a share of a device, a number of cores, a number
// of bytes. The zero value is 0. Amounts are never changed in place, so they
// can be copied freely; compare them with [Amount.Cmp], not with ==.
type Amount struct{ dec apd.Decimal }

// Int returns the amount n.
func Int(n int64) Amount {
	var a Amount
	a.dec.SetInt64(n)
	return a
}

// ParseAmount reads what Python's Decimal reads, and NaN excepted: surrounding
// blanks, underscores, exponents, other scripts' digits and infinities are
// accepted. The text form is kept: "1.50" and "1E+2" print as they were.
func ParseAmount(text string) (Amount, error) {
	plain := asciiDigits(strings.ReplaceAll(strings.TrimSpace(text), "_", ""))
	if !decimalSyntax(plain) {
		return Amount{}, fmt.Errorf("%q: %w", text, ErrAmount)
	}
	var a Amount
	if _, _, err := a.dec.SetString(plain); err != nil {
		return Amount{}, fmt.Errorf("%q: %w", text, ErrAmount)
	}
	if !a.IsInfinite() {
		adjusted := int64(a.dec.Exponent) + a.dec.NumDigits() - 1
		if a.dec.NumDigits() > maxDigits || adjusted > maxAdjusted || adjusted < -maxAdjusted {
			return Amount{}, fmt.Errorf("%q: out of range: %w", shorten(text), ErrAmount)
		}
	}
	return a, nil
}

// decimalSyntax keeps out what apd accepts and Python does not, and NaN.
func decimalSyntax(s string) bool {
	if s == "" || len(s) > 256 {
		return false
	}
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case "inf", "infinity":
		return strings.Count(s, "+")+strings.Count(s, "-") <= 1
	}
	digits := false
	for i, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits = true
		case r == '.', r == 'e', r == 'E':
		case r == '+', r == '-':
			if i > 0 && s[i-1] != 'e' && s[i-1] != 'E' {
				return false
			}
		default:
			return false
		}
	}
	return digits
}

// asciiDigits replaces the decimal digits of other scripts.
func asciiDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 || !unicode.Is(unicode.Nd, r) {
			return r
		}
		for _, t := range unicode.Nd.R16 {
			if r >= rune(t.Lo) && r <= rune(t.Hi) {
				return '0' + (r-rune(t.Lo))%10
			}
		}
		for _, t := range unicode.Nd.R32 {
			if r >= rune(t.Lo) && r <= rune(t.Hi) {
				return '0' + (r-rune(t.Lo))%10
			}
		}
		return r
	}, s)
}

func shorten(s string) string {
	if len(s) <= 40 {
		return s
	}
	return s[:40] + "…"
}

// exact is the context of addition: nothing is rounded.
func exact() *apd.Context { return &apd.BaseContext }

// Add returns a + b. Infinities of opposite sign cancel to 0.
func (a Amount) Add(b Amount) Amount {
	if a.IsInfinite() || b.IsInfinite() {
		return addInfinite(a, b)
	}
	var sum Amount
	// Neither traps nor limits can be hit: operands are bounded.
	_, _ = exact().Add(&sum.dec, &a.dec, &b.dec)
	return sum
}

func addInfinite(a, b Amount) Amount {
	switch {
	case !a.IsInfinite():
		return b
	case !b.IsInfinite() || a.dec.Negative == b.dec.Negative:
		return a
	default:
		return Amount{}
	}
}

// Sub returns a − b.
func (a Amount) Sub(b Amount) Amount { return a.Add(b.Neg()) }

// Neg returns −a.
func (a Amount) Neg() Amount {
	var n Amount
	n.dec.Neg(&a.dec)
	return n
}

// Cmp returns -1, 0 or 1 as a is less than, equal to or greater than b.
func (a Amount) Cmp(b Amount) int { return a.dec.Cmp(&b.dec) }

// Less reports whether a < b.
func (a Amount) Less(b Amount) bool { return a.Cmp(b) < 0 }

// Equal reports whether a and b are the same number, whatever their text form.
func (a Amount) Equal(b Amount) bool { return a.Cmp(b) == 0 }

// Sign returns -1, 0 or 1.
func (a Amount) Sign() int { return a.dec.Sign() }

// IsZero reports whether a is 0.
func (a Amount) IsZero() bool { return a.Sign() == 0 }

// IsInfinite reports whether a is an infinity.
func (a Amount) IsInfinite() bool { return a.dec.Form == apd.Infinite }

// IsWhole reports whether a is a finite integer.
func (a Amount) IsWhole() bool {
	return !a.IsInfinite() && a.Equal(a.trunc())
}

// min returns the smaller of a and b.
func (a Amount) min(b Amount) Amount {
	if b.Less(a) {
		return b
	}
	return a
}

// trunc drops the fraction.
func (a Amount) trunc() Amount {
	if a.IsInfinite() || a.dec.Exponent >= 0 {
		return a
	}
	return fromBig(a.bigInt())
}

// bigInt returns the integer part of a finite amount.
func (a Amount) bigInt() *big.Int {
	n := a.dec.Coeff.MathBigInt()
	if a.dec.Negative {
		n.Neg(n)
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(abs32(a.dec.Exponent))), nil)
	if a.dec.Exponent >= 0 {
		return n.Mul(n, scale)
	}
	return n.Quo(n, scale) // toward zero
}

func abs32(n int32) int32 {
	if n < 0 {
		return -n
	}
	return n
}

func fromBig(n *big.Int) Amount {
	var a Amount
	a.dec.Coeff.SetMathBigInt(new(big.Int).Abs(n))
	a.dec.Negative = n.Sign() < 0
	return a
}

// Int64 returns the integer part of a; ok is false when it does not fit.
func (a Amount) Int64() (n int64, ok bool) {
	if a.IsInfinite() {
		return 0, false
	}
	if a.dec.Exponent == 0 && a.dec.Coeff.IsInt64() {
		n = a.dec.Coeff.Int64()
		if a.dec.Negative {
			n = -n
		}
		return n, true
	}
	b := a.bigInt()
	if !b.IsInt64() {
		return 0, false
	}
	return b.Int64(), true
}

// Int64Clamped returns the integer part of a, or the nearest int64.
func (a Amount) Int64Clamped() int64 {
	if n, ok := a.Int64(); ok {
		return n
	}
	if a.Sign() < 0 {
		return math.MinInt64
	}
	return math.MaxInt64
}

// canonical is a with integers in positional form: 1E+7 becomes 10000000,
// 2.000 becomes 2. Fractions keep their digits.
func (a Amount) canonical() Amount {
	if a.IsWhole() {
		return fromBig(a.bigInt())
	}
	return a
}

// String returns the text that Python's str gives for the same Decimal:
// trailing zeros are kept and 1E+2 stays 1E+2.
func (a Amount) String() string {
	if a.IsInfinite() {
		return a.sign() + "Infinity"
	}
	digits := a.dec.Coeff.String()
	adjusted := int(a.dec.Exponent) + len(digits) - 1
	if a.dec.Exponent <= 0 && adjusted >= -6 {
		return a.sign() + positional(digits, int(a.dec.Exponent))
	}
	mantissa := digits
	if len(digits) > 1 {
		mantissa = digits[:1] + "." + digits[1:]
	}
	exponent := strconv.Itoa(adjusted)
	if adjusted >= 0 {
		exponent = "+" + exponent
	}
	return a.sign() + mantissa + "E" + exponent
}

// Plain returns a without an exponent: 1E+2 is written 100.
func (a Amount) Plain() string {
	if a.IsInfinite() {
		return a.String()
	}
	return a.sign() + positional(a.dec.Coeff.String(), int(a.dec.Exponent))
}

// Rounded returns the text of heartbeats and of the manager's JSON (26.8):
// rounded half-even to 0.01, without trailing zeros and exponent.
func (a Amount) Rounded() string {
	if a.IsInfinite() {
		return a.String()
	}
	return stripZeros(a.quantize(-2).Plain())
}

// quantize rounds half-even to a multiple of 10^exponent.
func (a Amount) quantize(exponent int32) Amount {
	if a.IsInfinite() || a.dec.Exponent >= exponent {
		return a
	}
	c := apd.BaseContext.WithPrecision(4 * maxDigits)
	c.Rounding = apd.RoundHalfEven
	var q Amount
	if _, err := c.Quantize(&q.dec, &a.dec, exponent); err != nil {
		return a
	}
	return q
}

func (a Amount) sign() string {
	if a.dec.Negative {
		return "-"
	}
	return ""
}

// positional writes digits·10^exponent.
func positional(digits string, exponent int) string {
	switch {
	case exponent == 0:
		return digits
	case exponent > 0:
		if digits == "0" {
			return digits
		}
		return digits + strings.Repeat("0", exponent)
	case len(digits) > -exponent:
		point := len(digits) + exponent
		return digits[:point] + "." + digits[point:]
	default:
		return "0." + strings.Repeat("0", -exponent-len(digits)) + digits
	}
}

func stripZeros(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	if s == "-0" {
		return "0"
	}
	return s
}

// MarshalText writes [Amount.String], so that JSON has amounts as texts.
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads what [ParseAmount] reads.
func (a *Amount) UnmarshalText(text []byte) error {
	parsed, err := ParseAmount(string(text))
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}

// UnmarshalJSON reads an amount from a JSON text or number; the number's
// digits are taken as they are, not through a float.
func (a *Amount) UnmarshalJSON(data []byte) error {
	text := string(data)
	if unquoted, err := strconv.Unquote(text); err == nil && text[0] == '"' {
		text = unquoted
	}
	return a.UnmarshalText([]byte(text))
}
