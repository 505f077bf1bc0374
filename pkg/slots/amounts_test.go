// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// texts turns the JSON values of the vectors into what a caller has.
func texts(input map[string]any) map[string]string {
	out := map[string]string{}
	for slot, value := range input {
		switch v := value.(type) {
		case nil:
		case float64:
			out[slot] = fmt.Sprintf("%.0f", v)
		default:
			out[slot] = fmt.Sprint(v)
		}
	}
	return out
}

func TestAmountsVectors(t *testing.T) {
	v := vectors[typeVectors](t, "resources/types.json")
	check := func(what string, got Amounts, err error, want outcome[map[string]string]) {
		t.Helper()
		if want.Value == nil {
			if err == nil {
				t.Errorf("%s: %v, want an error", what, got)
			}
			return
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		// A map, not Amounts: its Equal method takes absent slots for zeros.
		if diff := cmp.Diff(map[string]Amount(amountsOf(t, *want.Value)), map[string]Amount(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	for _, c := range v.Raw {
		got, err := ParseAmounts(texts(c.Input))
		check(fmt.Sprint("ParseAmounts ", c.Input), got, err, c.FromJSON)
	}
	types := map[string]Type{CPU: Count, Memory: Bytes, "cuda.shares": Count}
	for _, c := range v.User {
		got, err := ParseUserAmounts(texts(c.Input), types)
		check(fmt.Sprint("typed ", c.Input), got, err, c.Typed)
		got, err = ParseUserAmounts(texts(c.Input), nil)
		check(fmt.Sprint("guessed ", c.Input), got, err, c.Guess)
	}
	for _, c := range v.Arith {
		a, b := amountsOf(t, c.A), amountsOf(t, c.B)
		check("add", a.Add(b), nil, outcome[map[string]string]{Value: &c.Add})
		check("sub", a.Sub(b), nil, outcome[map[string]string]{Value: &c.Sub})
		got := []bool{a.Equal(b), a.LessEqual(b), a.Less(b), b.LessEqual(a), b.Less(a), a.Contains(b), b.Contains(a)}
		want := []bool{c.Eq, c.Le, c.Lt, c.Ge, c.Gt, c.Contains, c.Contained}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v and %v: eq le lt ge gt contains contained (-want +got):\n%s", c.A, c.B, diff)
		}
		if len(a) != len(c.A) || len(b) != len(c.B) {
			t.Errorf("operands were changed: %v %v", a, b)
		}
	}
}

func TestParseUserAmountsErrors(t *testing.T) {
	_, err := ParseUserAmounts(map[string]string{"gpu": "1", "cpu": "-1"}, map[string]Type{CPU: Count})
	var slot *SlotError
	if !errors.As(err, &slot) || !errors.Is(err, ErrUnknownSlot) || !errors.Is(err, ErrNegative) {
		t.Errorf("got %v", err)
	}
}

func TestSlotsOrder(t *testing.T) {
	a := Amounts{"rocm.device": {}, "mem": {}, "cuda.device": {}, "cpu": {}}
	want := []string{"cpu", "mem", "cuda.device", "rocm.device"}
	if diff := cmp.Diff(want, a.Slots()); diff != "" {
		t.Error(diff)
	}
}
