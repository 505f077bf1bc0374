// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// usage is what is held, by slot and device ID. Every device is in one slot,
// so the device name adds nothing.
type usage map[string]map[string]Amount

func usageOf(held iter.Seq[Allocation]) usage {
	use := usage{}
	for allocation := range held {
		allocation.each(func(_, slot, id string, amount Amount) {
			if amount.Sign() <= 0 {
				return // a negative share in a damaged file must not free a device
			}
			if use[slot] == nil {
				use[slot] = map[string]Amount{}
			}
			use[slot][id] = use[slot][id].Add(amount)
		})
	}
	return use
}

// Available returns what could still be allocated of every slot.
func (l *Ledger) Available(held map[string]Allocation) Amounts {
	use := usageOf(maps.Values(held))
	available := make(Amounts, len(l.bySlot))
	for slot := range l.bySlot {
		_, available[slot] = l.free(use, slot)
	}
	return available
}

// Doubt says what is odd about what is held. It is for logs and conditions:
// what a running kernel holds is never taken away or changed.
type Doubt struct {
	Slot   string
	Device string
	// Kernels hold the device, in order of their IDs.
	Kernels []string
	// Held is what they hold together; Capacity is what the device has, 0 if
	// the node has no such device.
	Held     Amount
	Capacity Amount
	// Unknown: the node has no such device (any more).
	Unknown bool
}

// Doubts lists devices of which more is held than they have, and devices that
// the node does not have: the traces of a changed machine or configuration.
func (l *Ledger) Doubts(held map[string]Allocation) []Doubt {
	var doubts []Doubt
	for slot, byID := range usageOf(maps.Values(held)) {
		for id, amount := range byID {
			doubt := Doubt{Slot: slot, Device: id, Held: amount, Unknown: true}
			for _, d := range l.bySlot[slot] {
				if d.ID == id {
					doubt.Capacity, doubt.Unknown = d.Capacity, false
				}
			}
			if amount.IsZero() || amount.Cmp(doubt.Capacity) <= 0 {
				continue
			}
			doubt.Kernels = holders(held, slot, id)
			doubts = append(doubts, doubt)
		}
	}
	slices.SortFunc(doubts, func(a, b Doubt) int {
		return cmp.Or(compareSlots(a.Slot, b.Slot), compareIDs(a.Device, b.Device))
	})
	return doubts
}

func holders(held map[string]Allocation, slot, id string) []string {
	var kernels []string
	for kernel, allocation := range held {
		if allocation[ParseName(slot).Device][slot][id].Sign() != 0 {
			kernels = append(kernels, kernel)
		}
	}
	slices.Sort(kernels)
	return kernels
}
