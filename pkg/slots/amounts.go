// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Amounts are amounts by slot name: a request, a capacity, a sum. A slot that
// is absent counts as 0. No operation changes its operands.
type Amounts map[string]Amount

// Add returns the sum over the slots of both.
func (a Amounts) Add(b Amounts) Amounts {
	sum := make(Amounts, max(len(a), len(b)))
	maps.Copy(sum, a)
	for slot, amount := range b {
		sum[slot] = sum[slot].Add(amount)
	}
	return sum
}

// Sub returns the difference over the slots of both; it may be negative.
func (a Amounts) Sub(b Amounts) Amounts {
	difference := make(Amounts, max(len(a), len(b)))
	maps.Copy(difference, a)
	for slot, amount := range b {
		difference[slot] = difference[slot].Sub(amount)
	}
	return difference
}

// Equal reports whether every slot has the same amount in both.
func (a Amounts) Equal(b Amounts) bool {
	less, greater := a.compare(b)
	return !less && !greater
}

// LessEqual reports whether no slot has more in a than in b. It is a partial
// order: a and b may both not be LessEqual to the other.
func (a Amounts) LessEqual(b Amounts) bool {
	_, greater := a.compare(b)
	return !greater
}

// Less reports whether a is LessEqual to b and not equal to it.
func (a Amounts) Less(b Amounts) bool {
	less, greater := a.compare(b)
	return less && !greater
}

// Contains reports whether a and b agree where both have a slot and what only
// b has is 0.
func (a Amounts) Contains(b Amounts) bool {
	for slot, amount := range b {
		if !a[slot].Equal(amount) {
			return false
		}
	}
	return true
}

// compare tells whether some slot has less, and whether some has more, in a.
func (a Amounts) compare(b Amounts) (less, greater bool) {
	for slot := range a.Add(b) {
		switch a[slot].Cmp(b[slot]) {
		case -1:
			less = true
		case 1:
			greater = true
		}
	}
	return less, greater
}

// Slots returns the names in the order in which they are written: cpu, mem,
// then the others by name.
func (a Amounts) Slots() []string {
	return slices.SortedFunc(maps.Keys(a), compareSlots)
}

func compareSlots(a, b string) int {
	rank := func(slot string) int {
		switch slot {
		case CPU:
			return 0
		case Memory:
			return 1
		default:
			return 2
		}
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

// Texts returns the amounts as plain decimals without exponents.
func (a Amounts) Texts() map[string]string {
	texts := make(map[string]string, len(a))
	for slot, amount := range a {
		texts[slot] = amount.Plain()
	}
	return texts
}

// ParseAmounts reads amounts as the manager sends them in create_kernels:
// plain decimals for every slot, bytes too. All bad slots are named in the error.
func ParseAmounts(texts map[string]string) (Amounts, error) {
	return parseAmounts(texts, ParseAmount)
}

func parseAmounts(texts map[string]string, parse func(string) (Amount, error)) (Amounts, error) {
	amounts := make(Amounts, len(texts))
	var errs []error
	for _, slot := range slices.Sorted(maps.Keys(texts)) {
		amount, err := parse(texts[slot])
		if err != nil {
			errs = append(errs, fmt.Errorf("slot %s: %w", slot, err))
			continue
		}
		amounts[slot] = amount
	}
	return amounts, errors.Join(errs...)
}

// ParseUserAmounts reads amounts as a person writes them: bytes may have units
// ("mem": "1.5g"), other amounts are rounded to three decimals as the manager
// does. Without types a slot with "mem" in its name counts bytes, and zero
// amounts are dropped; with types, absent slots are 0 and others are unknown.
func ParseUserAmounts(texts map[string]string, types map[string]Type) (Amounts, error) {
	amounts := make(Amounts, max(len(texts), len(types)))
	var errs []error
	for _, slot := range slices.Sorted(maps.Keys(texts)) {
		kind, known := types[slot]
		if types == nil {
			known = true
			if strings.Contains(slot, Memory) {
				kind = Bytes
			}
		}
		amount, err := parseUserAmount(texts[slot], kind)
		switch {
		case !known:
			errs = append(errs, &SlotError{Err: ErrUnknownSlot, Slot: slot, Requested: amount})
		case err != nil:
			errs = append(errs, fmt.Errorf("slot %s: %w", slot, err))
		case amount.Sign() < 0:
			errs = append(errs, &SlotError{Err: ErrNegative, Slot: slot, Requested: amount})
		case types == nil && amount.IsZero():
		default:
			amounts[slot] = amount
		}
	}
	for slot := range types {
		if _, given := texts[slot]; !given {
			amounts[slot] = Amount{}
		}
	}
	return amounts, errors.Join(errs...)
}

func parseUserAmount(text string, kind Type) (Amount, error) {
	if kind == Bytes {
		return ParseBytes(text)
	}
	amount, err := ParseAmount(text)
	if err != nil {
		return Amount{}, err
	}
	return amount.quantize(-3), nil
}
