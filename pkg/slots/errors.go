// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"errors"
	"fmt"
)

// Reasons why a request cannot be met; test for them with errors.Is and get
// slot and amounts with errors.As and [*SlotError].
var (
	// ErrUnknownSlot says that the node has no such slot.
	ErrUnknownSlot = errors.New("this node has no such slot")
	// ErrMissingSlot says that a slot that every kernel needs was not asked for.
	ErrMissingSlot = errors.New("an amount above 0 must be asked for")
	// ErrNegative says that less than nothing was asked for.
	ErrNegative = errors.New("the amount must not be negative")
	// ErrFraction says that a part of an indivisible thing was asked for.
	ErrFraction = errors.New("the amount must be a whole number")
	// ErrNotUnique says that another amount than 1 was asked of a unique slot.
	ErrNotUnique = errors.New("exactly 1 can be asked for")
	// ErrExclusive says that two slots cannot be used together.
	ErrExclusive = errors.New("the slots cannot be used by one kernel")
	// ErrInsufficient says that the node has the slot, but not enough of it.
	ErrInsufficient = errors.New("not enough is free")
)

// SlotError says which slot stands in the way of a request, and with what amounts.
type SlotError struct {
	// Err is one of the reasons of this package.
	Err error
	// Slot is the slot's name.
	Slot string
	// Other is the second slot of [ErrExclusive].
	Other string
	// Requested is what was asked for.
	Requested Amount
	// Available is what could have been had, for [ErrInsufficient].
	Available Amount
}

// Error names the slot, the amounts and the reason.
func (e *SlotError) Error() string {
	switch {
	case errors.Is(e.Err, ErrInsufficient):
		return fmt.Sprintf("slot %s: %s requested, %s available: %v", e.Slot, e.Requested.Plain(), e.Available.Plain(), e.Err)
	case e.Other != "":
		return fmt.Sprintf("slots %s and %s: %v", e.Slot, e.Other, e.Err)
	default:
		return fmt.Sprintf("slot %s: %s requested: %v", e.Slot, e.Requested.Plain(), e.Err)
	}
}

// Unwrap returns the reason.
func (e *SlotError) Unwrap() error { return e.Err }
