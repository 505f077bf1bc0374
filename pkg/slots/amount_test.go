// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAmountText(t *testing.T) {
	for _, c := range []struct{ in, str, plain, rounded string }{
		{"1.50", "1.50", "1.50", "1.5"},
		{"1E+2", "1E+2", "100", "100"},
		{"1e2", "1E+2", "100", "100"},
		{"0.00", "0.00", "0.00", "0"},
		{"0E+3", "0E+3", "0", "0"},
		{"0E-7", "0E-7", "0.0000000", "0"},
		{"0.000001", "0.000001", "0.000001", "0"},
		{"0.0000001", "1E-7", "0.0000001", "0"},
		{"1.234E-10", "1.234E-10", "0.0000000001234", "0"},
		{"12E+5", "1.2E+6", "1200000", "1200000"},
		{"-0.5", "-0.5", "-0.5", "-0.5"},
		{"-0.001", "-0.001", "-0.001", "0"},
		{"+7", "7", "7", "7"},
		{".5", "0.5", "0.5", "0.5"},
		{"5.", "5", "5", "5"},
		{" 1_000 ", "1000", "1000", "1000"},
		{"٣.٥", "3.5", "3.5", "3.5"},
		{"Infinity", "Infinity", "Infinity", "Infinity"},
		{"-inf", "-Infinity", "-Infinity", "-Infinity"},
		{"1237940039285380274899124224", "1237940039285380274899124224", "1237940039285380274899124224", "1237940039285380274899124224"},
	} {
		a, err := ParseAmount(c.in)
		if err != nil {
			t.Errorf("ParseAmount(%q): %v", c.in, err)
			continue
		}
		if diff := cmp.Diff([]string{c.str, c.plain, c.rounded}, []string{a.String(), a.Plain(), a.Rounded()}); diff != "" {
			t.Errorf("%q: String, Plain, Rounded (-want +got):\n%s", c.in, diff)
		}
	}
}

func TestAmountRefused(t *testing.T) {
	for _, in := range []string{
		"", " ", "abc", "nan", "sNaN", "1,000", "1 000", "0x10", "1..5", "--1", "+-1", "1-2", "e5", "1e", "1e+", ".", "+",
		"1E+65", "1E-65", "1E+999999999", "1e99999999999999999999", strings.Repeat("9", 65), "infin", "1\n2", "½",
	} {
		if a, err := ParseAmount(in); !errors.Is(err, ErrAmount) {
			t.Errorf("ParseAmount(%q) = %v, %v; want ErrAmount", in, a, err)
		}
	}
}

func TestAmountJSON(t *testing.T) {
	in := `{"a":"1.50","b":3,"c":"1E+2","d":0.1,"e":"Infinity"}`
	var m map[string]Amount
	if err := json.Unmarshal([]byte(in), &m); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a":"1.50","b":"3","c":"1E+2","d":"0.1","e":"Infinity"}`; string(out) != want {
		t.Errorf("got %s, want %s", out, want)
	}
	for _, bad := range []string{`{"a":true}`, `{"a":"x"}`, `{"a":[1]}`, `{"a":{}}`} {
		if err := json.Unmarshal([]byte(bad), &m); !errors.Is(err, ErrAmount) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestAmountArithmetic(t *testing.T) {
	inf, minus := amount(t, "Infinity"), amount(t, "-Infinity")
	for _, c := range []struct{ got, want Amount }{
		{amount(t, "0.1").Add(amount(t, "0.2")), amount(t, "0.3")},
		{amount(t, "1E+30").Add(amount(t, "1E-30")), amount(t, "1000000000000000000000000000000.000000000000000000000000000001")},
		{amount(t, "1").Sub(amount(t, "1.5")), amount(t, "-0.5")},
		{inf.Add(Int(1)), inf},
		{Int(1).Sub(inf), minus},
		{inf.Add(inf), inf},
		{inf.Add(minus), Int(0)},
	} {
		if !c.got.Equal(c.want) {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	for text, want := range map[string]int64{
		"1.9": 1, "-1.9": -1, "1E+3": 1000, "Infinity": math.MaxInt64, "-1E+40": math.MinInt64, "1E+40": math.MaxInt64,
	} {
		if got := amount(t, text).Int64Clamped(); got != want {
			t.Errorf("%s: Int64Clamped %d, want %d", text, got, want)
		}
	}
}

// Operands are never changed, even those too large to be stored inline.
func TestAmountIsImmutable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?[0-9]{1,40}(\.[0-9]{1,10})?`)
		a, b := amountOf(t, text.Draw(t, "a")), amountOf(t, text.Draw(t, "b"))
		before := [2]string{a.String(), b.String()}
		c := a
		sum := a.Add(b)
		_, _, _, _ = a.Sub(b), c.Neg(), a.canonical(), a.quantize(-2)
		if after := [2]string{a.String(), b.String()}; after != before {
			t.Fatalf("operands changed from %v to %v", before, after)
		}
		if !sum.Sub(b).Equal(a) {
			t.Fatalf("%s + %s − %s = %s", a, b, b, sum.Sub(b))
		}
	})
}

func amountOf(t *rapid.T, text string) Amount {
	a, err := ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

type typeVectors struct {
	Parse []struct {
		Input  string
		From   outcome[string] `json:"from_str"`
		Finite outcome[string] `json:"finite_from_str"`
	} `json:"binary_size_parse"`
	Format []struct {
		Bytes string
		Str   outcome[string]
		S     outcome[string] `json:"format_s"`
		K     outcome[string] `json:"format_k"`
		M     outcome[string] `json:"format_m"`
		G     outcome[string] `json:"format_g"`
		Space outcome[string] `json:"format_space"`
	} `json:"binary_size_format"`
	Names []struct {
		Name        string
		Device      string `json:"device_name"`
		Major       string `json:"major_type"`
		Minor       string `json:"minor_type"`
		Accelerator bool   `json:"is_accelerator"`
	} `json:"slot_name"`
	ToJSON []struct {
		Value string
		JSON  outcome[string] `json:"to_json"`
	} `json:"decimal_to_json"`
	Raw []struct {
		Input    map[string]any
		FromJSON outcome[map[string]string] `json:"from_json"`
	} `json:"resource_slot_raw"`
	User []struct {
		Input map[string]any
		Typed outcome[map[string]string] `json:"with_types"`
		Guess outcome[map[string]string]
	} `json:"resource_slot_user_input"`
	Arith []struct {
		A, B, Add, Sub     map[string]string
		Eq, Le, Lt, Ge, Gt bool
		Contains           bool `json:"eq_contains"`
		Contained          bool `json:"eq_contained"`
	} `json:"resource_slot_arith"`
}

func TestBytesVectors(t *testing.T) {
	check := func(what string, got string, err error, want outcome[string]) {
		t.Helper()
		switch {
		case want.Value == nil && !errors.Is(err, ErrAmount):
			t.Errorf("%s = %q, %v; want an error", what, got, err)
		case want.Value != nil && (err != nil || got != *want.Value):
			t.Errorf("%s = %q, %v; want %q", what, got, err, *want.Value)
		}
	}
	v := vectors[typeVectors](t, "resources/types.json")
	for _, c := range v.Parse {
		a, err := ParseBytes(c.Input)
		check("ParseBytes "+c.Input, a.String(), err, c.From)
		a, err = ParseFiniteBytes(c.Input)
		check("ParseFiniteBytes "+c.Input, a.String(), err, c.Finite)
	}
	for _, c := range v.Format {
		n := amount(t, c.Bytes)
		text, err := FormatBytes(n)
		check("FormatBytes "+c.Bytes, text, err, c.S)
		text, err = HumanBytes(n)
		check("HumanBytes "+c.Bytes, text, err, c.Str)
		for unit, want := range map[byte]outcome[string]{'k': c.K, 'm': c.M, 'g': c.G, ' ': c.Space} {
			text, err = FormatBytesIn(n, unit)
			check("FormatBytesIn "+c.Bytes+" "+string(unit), text, err, want)
		}
	}
	for _, bad := range []string{"Infinity", "-Infinity"} {
		for _, f := range []func(Amount) (string, error){FormatBytes, HumanBytes, func(a Amount) (string, error) { return FormatBytesIn(a, 'm') }} {
			if text, err := f(amount(t, bad)); err == nil {
				t.Errorf("%s was written as %q", bad, text)
			}
		}
	}
	if _, err := FormatBytesIn(Int(1), 'q'); err == nil {
		t.Error("unit q was accepted")
	}
}

// Files of releases up to 24.03 can have an exponent before the unit.
func TestParseBytesOldExponent(t *testing.T) {
	a, err := ParseBytes("1E+2k")
	if err != nil || !a.Equal(Int(102400)) {
		t.Errorf("got %s, %v", a, err)
	}
	if _, err := ParseBytes("infk"); err == nil {
		t.Error("infk was accepted")
	}
}

func TestNameAndJSONVectors(t *testing.T) {
	v := vectors[typeVectors](t, "resources/types.json")
	for _, c := range v.Names {
		want := Name{Device: c.Device, Major: c.Major, Minor: c.Minor}
		got := ParseName(c.Name)
		if got != want || got.IsAccelerator() != c.Accelerator {
			t.Errorf("ParseName(%q) = %+v, accelerator %t", c.Name, got, got.IsAccelerator())
		}
	}
	for _, c := range v.ToJSON {
		if got := amount(t, c.Value).Rounded(); got != *c.JSON.Value {
			t.Errorf("Rounded %s = %s, want %s", c.Value, got, *c.JSON.Value)
		}
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, seed := range []string{"1g", "1.5 KiB", "2048 bytes", "1e3k", "inf", "-1g", "٣", "1E+2k", "8gib", "_1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseBytes(text)
		if err != nil {
			if !errors.Is(err, ErrAmount) {
				t.Fatalf("%q: %v is not ErrAmount", text, err)
			}
			return
		}
		again, err := ParseBytes(a.Plain())
		if err != nil || !again.Equal(a) {
			t.Fatalf("%q gave %s, which reads as %s, %v", text, a, again, err)
		}
	})
}
