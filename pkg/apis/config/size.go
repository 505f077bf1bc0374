// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Size is a number of bytes. Text forms take the suffixes k m g t p e z y, in
// either case, always in powers of 1024, with an optional b, byte, bytes, ib,
// ibyte or ibytes behind: "10M", "1.5 GiB", "64_000".
type Size int64

// DecimalSize is a number of bytes whose text forms follow the usual units:
// "10M" and "10MB" are 10·10⁶, "10MiB" is 10·2²⁰.
type DecimalSize int64

var (
	errNotSize    = errors.New("not a size")
	errFractional = errors.New("not a whole number of bytes")
	errTooLarge   = errors.New("larger than 8 EiB")
	errInfinite   = errors.New("an infinite size has no meaning here")
)

const (
	sizeSuffixes = "kmgtpezy"
	// maxSizeText keeps absurd numbers away from exact arithmetic.
	maxSizeText = 64
)

// ParseSize reads a [Size].
func ParseSize(text string) (Size, error) {
	number, suffix, _, err := splitSize(text)
	if err != nil {
		return 0, err
	}
	n, err := scale(number, 1024, suffix)
	return Size(n), err
}

// ParseDecimalSize reads a [DecimalSize].
func ParseDecimalSize(text string) (DecimalSize, error) {
	number, suffix, binary, err := splitSize(text)
	if err != nil {
		return 0, err
	}
	base := int64(1000)
	if binary {
		base = 1024
	}
	n, err := scale(number, base, suffix)
	return DecimalSize(n), err
}

// splitSize takes a size apart: the number, the exponent of its suffix (1 for
// k), and whether it ends in ib, ibyte or ibytes.
func splitSize(text string) (number string, suffix int, binary bool, err error) {
	s := strings.ToLower(strings.TrimSpace(text))
	if len(s) > maxSizeText {
		return "", 0, false, errNotSize
	}
	switch strings.TrimLeft(s, "+-") {
	case "inf", "infinite", "infinity":
		return "", 0, false, errInfinite
	}
	for _, ending := range []string{"ibytes", "ibyte", "ib", "bytes", "byte", "b"} {
		if rest, ok := strings.CutSuffix(s, ending); ok {
			s, binary = rest, ending[0] == 'i'
			break
		}
	}
	if s != "" {
		suffix = strings.IndexByte(sizeSuffixes, s[len(s)-1]) + 1
	}
	if suffix > 0 {
		s = s[:len(s)-1]
	} else if binary {
		return "", 0, false, errNotSize // "5ib"
	}
	return strings.TrimSpace(s), suffix, binary, nil
}

// scale returns number·base^suffix exactly.
func scale(number string, base int64, suffix int) (int64, error) {
	digits := strings.ReplaceAll(number, "_", "")
	unsigned := strings.TrimLeft(digits, "+-")
	if len(digits)-len(unsigned) > 1 || strings.Trim(unsigned, "0123456789.") != "" ||
		strings.Count(unsigned, ".") > 1 || strings.Trim(unsigned, ".") == "" {
		return 0, errNotSize
	}
	r, ok := new(big.Rat).SetString(digits)
	if !ok {
		return 0, errNotSize
	}
	factor := new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(suffix)), nil)
	r.Mul(r, new(big.Rat).SetInt(factor))
	if !r.IsInt() {
		return 0, errFractional
	}
	if !r.Num().IsInt64() {
		return 0, errTooLarge
	}
	return r.Num().Int64(), nil
}

// String returns the shortest exact text, such as "1G", which [ParseSize] reads.
func (s Size) String() string {
	n, suffix := int64(s), 0
	for n != 0 && n%1024 == 0 && suffix < 6 {
		n, suffix = n/1024, suffix+1
	}
	if suffix == 0 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10) + strings.ToUpper(sizeSuffixes[suffix-1:suffix])
}

// MarshalJSON writes the text form.
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// String returns the shortest exact text, such as "10MB", which [ParseDecimalSize] reads.
func (s DecimalSize) String() string {
	if n := int64(s); n%1024 == 0 && n%1000 != 0 {
		return Size(s).String() + "iB"
	}
	n, suffix := int64(s), 0
	for n != 0 && n%1000 == 0 && suffix < 6 {
		n, suffix = n/1000, suffix+1
	}
	if suffix == 0 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10) + strings.ToUpper(sizeSuffixes[suffix-1:suffix]) + "B"
}

// MarshalJSON writes the text form.
func (s DecimalSize) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

func (s *Size) expects() string { return `a size such as "10M" or a number of bytes` }

func (s *Size) decode(n *node, _ *Machine) error {
	v, err := sizeOf(n, func(t string) (int64, error) { v, err := ParseSize(t); return int64(v), err })
	*s = Size(v)
	return err
}

func (s *DecimalSize) expects() string {
	return `a size such as "10MB" or "10MiB" or a number of bytes`
}

func (s *DecimalSize) decode(n *node, _ *Machine) error {
	v, err := sizeOf(n, func(t string) (int64, error) { v, err := ParseDecimalSize(t); return int64(v), err })
	*s = DecimalSize(v)
	return err
}

func sizeOf(n *node, parse func(string) (int64, error)) (int64, error) {
	switch v := n.value.(type) {
	case int64:
		return v, nil
	case float64:
		switch {
		case math.IsInf(v, 0):
			return 0, errInfinite
		case v != math.Trunc(v):
			return 0, errFractional
		case math.Abs(v) >= 1<<53:
			return 0, errTooLarge
		}
		return int64(v), nil
	case string:
		size, err := parse(v)
		if errors.Is(err, errNotSize) {
			return 0, errMismatch
		}
		return size, err
	}
	return 0, errMismatch
}
