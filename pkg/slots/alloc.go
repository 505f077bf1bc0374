// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"fmt"
	"maps"
	"path"
	"slices"
)

// Policy is how a node hands its devices out.
type Policy struct {
	// Order is the order of device names in which a request is served
	// ([resource] allocation-order); others come before cpu and mem.
	Order []string
	// Required slots must be asked for by every kernel.
	Required []string
	// Fill names the slots that are filled device by device instead of evenly.
	Fill []string
	// Exclusive patterns (with * for any text) name slots of which one kernel
	// can use only one.
	Exclusive []string
	// Limits cap a slot's total below the capacity of its devices: what is left
	// after the node's reservation. A slot without a limit has none.
	Limits Amounts
}

// DefaultPolicy returns the defaults of the reference (26.8).
func DefaultPolicy() Policy {
	return Policy{Order: DefaultOrder(), Required: []string{CPU, Memory}, Fill: []string{Memory}}
}

// DefaultOrder is the default of [resource] allocation-order.
func DefaultOrder() []string { return []string{"cuda", "rocm", "tpu", CPU, Memory} }

// Ledger knows the devices of a node and how to hand them out. It does not
// know what is held: the caller says so in every call, so that there is one
// truth and nothing to roll back. A Ledger is safe for concurrent use.
type Ledger struct {
	policy  Policy
	devices []Device
	// bySlot has the devices of each slot in the order of declaration.
	bySlot map[string][]Device
}

// NewLedger checks the devices: each belongs to a slot of its device name, IDs
// are unique within a device name, and a slot has one type.
func NewLedger(devices []Device, policy Policy) (*Ledger, error) {
	l := &Ledger{policy: policy, devices: slices.Clone(devices), bySlot: map[string][]Device{}}
	type key struct{ name, id string }
	seen := make(map[key]bool, len(devices))
	for _, d := range devices {
		if err := d.check(); err != nil {
			return nil, err
		}
		if seen[key{d.Name, d.ID}] {
			return nil, fmt.Errorf("device %s %s: listed twice: %w", d.Name, d.ID, ErrDevice)
		}
		seen[key{d.Name, d.ID}] = true
		if of := l.bySlot[d.Slot]; len(of) > 0 && of[0].kind() != d.kind() {
			return nil, fmt.Errorf("device %s %s: slot %s is both %s and %s: %w", d.Name, d.ID, d.Slot, of[0].kind(), d.kind(), ErrDevice)
		}
		l.bySlot[d.Slot] = append(l.bySlot[d.Slot], d)
	}
	return l, nil
}

// Devices returns the devices of a device name, in the order of declaration.
func (l *Ledger) Devices(name string) []Device {
	var of []Device
	for _, d := range l.devices {
		if d.Name == name {
			of = append(of, d)
		}
	}
	return of
}

// Types returns the type of every slot of the node.
func (l *Ledger) Types() map[string]Type {
	types := make(map[string]Type, len(l.bySlot))
	for slot, devices := range l.bySlot {
		types[slot] = devices[0].kind()
	}
	return types
}

// Capacity returns what the node offers: what its devices have, no more than
// the policy's limits. Unified slots are offered, but never allocated.
func (l *Ledger) Capacity() Amounts {
	capacity := make(Amounts, len(l.bySlot))
	for slot, devices := range l.bySlot {
		var total Amount
		for _, d := range devices {
			total = total.Add(d.Capacity)
		}
		if limit, ok := l.policy.Limits[slot]; ok {
			total = total.min(limit)
		}
		capacity[slot] = total.canonical()
	}
	return capacity
}

// Order returns the device names of the node in the order in which they are
// allocated: names missing in the policy come before cpu and mem.
func (l *Ledger) Order() []string {
	var names []string
	for _, d := range l.devices {
		if !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	return orderNames(names, l.policy.Order)
}

// orderNames sorts device names by their place in order. Those without a
// place keep their order and come before the first of cpu and mem.
func orderNames(names, order []string) []string {
	unplaced := len(order)
	for _, intrinsic := range []string{CPU, Memory} {
		if i := slices.Index(order, intrinsic); i >= 0 {
			unplaced = min(unplaced, i)
		}
	}
	rank := func(name string) int {
		i := slices.Index(order, name)
		switch {
		case i < 0 && (name == CPU || name == Memory):
			return 2*len(order) + 2
		case i < 0:
			return 2 * unplaced
		default:
			return 2*i + 1
		}
	}
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return rank(a) - rank(b) })
	return sorted
}

// Normalize checks a request before any device is looked at: required slots
// are there, unknown slots are 0 (and dropped), nothing is negative, counted
// things are whole. The result has every slot of the node.
func (l *Ledger) Normalize(request Amounts) (Amounts, error) {
	for _, slot := range l.policy.Required {
		if amount := request[slot]; amount.Sign() == 0 {
			return nil, &SlotError{Err: ErrMissingSlot, Slot: slot, Requested: amount}
		}
	}
	normal := make(Amounts, len(l.bySlot))
	for slot := range l.bySlot {
		normal[slot] = Amount{}
	}
	for _, slot := range request.Slots() {
		amount := request[slot]
		_, known := l.bySlot[slot]
		switch {
		case amount.Sign() < 0:
			return nil, &SlotError{Err: ErrNegative, Slot: slot, Requested: amount}
		case !known && amount.IsZero():
		case !known:
			return nil, &SlotError{Err: ErrUnknownSlot, Slot: slot, Requested: amount}
		case l.bySlot[slot][0].kind() == Unique && !amount.IsZero() && !amount.Equal(Int(1)):
			return nil, &SlotError{Err: ErrNotUnique, Slot: slot, Requested: amount}
		case !amount.IsInfinite() && !amount.IsWhole():
			return nil, &SlotError{Err: ErrFraction, Slot: slot, Requested: amount}
		default:
			normal[slot] = amount.canonical()
		}
	}
	return normal, l.checkExclusive(normal)
}

// checkExclusive refuses two slots of which only one can be used.
func (l *Ledger) checkExclusive(request Amounts) error {
	var asked []string
	for _, slot := range request.Slots() {
		if request[slot].Sign() > 0 && l.isExclusive(slot) {
			asked = append(asked, slot)
		}
	}
	if len(asked) < 2 {
		return nil
	}
	return &SlotError{Err: ErrExclusive, Slot: asked[0], Other: asked[1], Requested: request[asked[0]]}
}

func (l *Ledger) isExclusive(slot string) bool {
	return slices.ContainsFunc(l.policy.Exclusive, func(pattern string) bool {
		matched, err := path.Match(pattern, slot)
		return pattern == slot || err == nil && matched
	})
}

// Allocate answers a request, given what all kernels hold, by kernel ID. It is
// all or nothing: the error is a [*SlotError] that names the slot in the way.
// Equal input gives an equal result.
func (l *Ledger) Allocate(held map[string]Allocation, request Amounts) (Allocation, error) {
	normal, err := l.Normalize(request)
	if err != nil {
		return nil, err
	}
	use := usageOf(maps.Values(held))
	result := make(Allocation)
	for _, name := range l.Order() {
		result[name] = map[string]map[string]Amount{}
		for _, slot := range l.slotsOf(name) {
			if normal[slot].IsZero() {
				continue
			}
			given, err := l.place(use, slot, normal[slot])
			if err != nil {
				return nil, err
			}
			shares := make(map[string]Amount, len(given))
			for _, g := range given {
				shares[g.id] = g.amount
			}
			result[name][slot] = shares
		}
	}
	return result, nil
}

// slotsOf returns the slots of a device name in the order in which they are written.
func (l *Ledger) slotsOf(name string) []string {
	var of []string
	for slot := range l.bySlot {
		if ParseName(slot).Device == name {
			of = append(of, slot)
		}
	}
	slices.SortFunc(of, compareSlots)
	return of
}

// place finds devices for one slot.
func (l *Ledger) place(use usage, slot string, want Amount) ([]share, error) {
	free, available := l.free(use, slot)
	if available.Less(want) {
		return nil, &SlotError{Err: ErrInsufficient, Slot: slot, Requested: want, Available: available}
	}
	if slices.Contains(l.policy.Fill, slot) {
		return fill(free, want), nil
	}
	return even(free, want.Int64Clamped()), nil
}

// free returns what each device of a slot has left, and how much of that can
// be had in whole units and within the slot's limit. A device of which more is
// held than it has counts as used up, no more: it does not eat into others.
func (l *Ledger) free(use usage, slot string) (free []share, available Amount) {
	var used Amount
	for _, d := range l.bySlot[slot] {
		if d.kind() == Unified {
			continue
		}
		taken := use[slot][d.ID]
		used = used.Add(taken)
		if left := d.Capacity.Sub(taken); left.Sign() > 0 {
			free = append(free, share{d.ID, left})
		}
	}
	available = allocatable(free)
	if limit, ok := l.policy.Limits[slot]; ok {
		available = available.min(limit.Sub(used))
	}
	if available.Sign() < 0 {
		available = Amount{}
	}
	return free, available.canonical()
}
