// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Device is one allocatable thing of the node under one slot: a core, the
// memory, a GPU.
type Device struct {
	// Name is the device name, such as "cpu" or "cuda".
	Name string
	// ID tells devices of one name apart; it is text, even for cores.
	ID string
	// Slot is the slot under which the device is asked for.
	Slot string
	// Type tells how the slot is counted; empty means [Count].
	Type Type
	// Capacity is how much of the slot the device has.
	Capacity Amount
	// NUMANode is the memory node that the device is near to; -1 if unknown.
	NUMANode int
	// Model is the maker's name for people; empty for cpu and mem.
	Model string
}

// ErrDevice says that a device cannot be part of a node.
var ErrDevice = errors.New("invalid device")

func (d Device) kind() Type {
	if d.Type == "" {
		return Count
	}
	return d.Type
}

func (d Device) check() error {
	switch {
	case d.Name == "" || d.ID == "":
		return fmt.Errorf("device %q %q of slot %q: without name or ID: %w", d.Name, d.ID, d.Slot, ErrDevice)
	case !ownedBy(d.Name, d.Slot):
		return fmt.Errorf("device %s %s: slot %q must be %q or start with %q: %w", d.Name, d.ID, d.Slot, d.Name, d.Name+".", ErrDevice)
	case d.Capacity.Sign() < 0 || d.Capacity.IsInfinite():
		return fmt.Errorf("device %s %s: capacity %s: %w", d.Name, d.ID, d.Capacity, ErrDevice)
	}
	return nil
}

// Allocation is what one kernel holds, by device name, slot name and device
// ID, as in the create_kernels result of 26.8.
type Allocation map[string]map[string]map[string]Amount

// each calls f for every share, in no order.
func (a Allocation) each(f func(device, slot, id string, amount Amount)) {
	for device, bySlot := range a {
		for slot, shares := range bySlot {
			for id, amount := range shares {
				f(device, slot, id, amount)
			}
		}
	}
}

// Total returns the sums by slot.
func (a Allocation) Total() Amounts {
	total := Amounts{}
	a.each(func(_, slot, _ string, amount Amount) {
		total[slot] = total[slot].Add(amount)
	})
	return total
}

// IDs returns the IDs of the devices of which a slot has more than nothing,
// numbers first and in numerical order.
func (a Allocation) IDs(slot string) []string {
	var ids []string
	for id, amount := range a[ParseName(slot).Device][slot] {
		if amount.Sign() > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, compareIDs)
	return ids
}

// Texts returns the allocation with amounts as plain decimals.
func (a Allocation) Texts() map[string]map[string]map[string]string {
	texts := make(map[string]map[string]map[string]string, len(a))
	for device, bySlot := range a {
		texts[device] = make(map[string]map[string]string, len(bySlot))
		for slot, shares := range bySlot {
			texts[device][slot] = Amounts(shares).Texts()
		}
	}
	return texts
}

// ParseAllocation reads what [Allocation.Texts] wrote. All bad amounts are
// named in the error; the rest is returned beside it.
func ParseAllocation(texts map[string]map[string]map[string]string) (Allocation, error) {
	a := make(Allocation, len(texts))
	var errs []error
	for _, device := range slices.Sorted(maps.Keys(texts)) {
		a[device] = make(map[string]map[string]Amount, len(texts[device]))
		for _, slot := range slices.Sorted(maps.Keys(texts[device])) {
			shares, err := ParseAmounts(texts[device][slot])
			if err != nil {
				errs = append(errs, fmt.Errorf("allocation of slot %s: %w", slot, err))
			}
			a[device][slot] = shares
		}
	}
	return a, errors.Join(errs...)
}

// compareIDs puts numbers before other texts, and numbers in numerical order.
func compareIDs(a, b string) int {
	numA, numB := isNumber(a), isNumber(b)
	switch {
	case numA && numB && len(a) != len(b):
		return len(a) - len(b)
	case numA != numB:
		if numA {
			return -1
		}
		return 1
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// isNumber reports whether an ID is a decimal without leading zeros.
func isNumber(id string) bool {
	if id == "" || id[0] == '0' && len(id) > 1 {
		return false
	}
	for i := range len(id) {
		if id[i] < '0' || id[i] > '9' {
			return false
		}
	}
	return true
}
