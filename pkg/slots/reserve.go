// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"errors"
	"fmt"
)

// ErrReservation says that a node cannot keep back what it is told to.
var ErrReservation = errors.New("reservation cannot be kept")

// Reservation is what the node keeps for itself ([resource] reserved-cpu,
// reserved-mem, memory-align-size). Reserved cores are a number: no particular
// core is kept free.
type Reservation struct {
	Cores int64
	// MemoryBytes are kept back; what remains is cut to a multiple of AlignBytes
	// (1 or less: no alignment).
	MemoryBytes int64
	AlignBytes  int64
}

// DefaultReservation returns the defaults of the reference (26.8).
func DefaultReservation() Reservation {
	return Reservation{Cores: 1, MemoryBytes: 1 << 30, AlignBytes: 16 << 20}
}

// Limits returns how much of cpu and mem can be handed out of a capacity, for
// [Policy.Limits] and for the node's reports. It is an error if nothing is left
// of either.
//
// The reference rounds misaligned memory up before it reserves, and can report
// more than there is; here the result never exceeds total − reserved.
func (r Reservation) Limits(capacity Amounts) (Amounts, error) {
	if r.Cores < 0 || r.MemoryBytes < 0 {
		return nil, fmt.Errorf("reserved-cpu %d, reserved-mem %d: must not be negative: %w", r.Cores, r.MemoryBytes, ErrReservation)
	}
	cores := capacity[CPU].Sub(Int(r.Cores))
	if cores.Sign() <= 0 {
		return nil, fmt.Errorf("reserved-cpu %d: the node has %s cores, none would be left: %w", r.Cores, capacity[CPU].Plain(), ErrReservation)
	}
	usable := AlignMemory(capacity[Memory].Int64Clamped(), r.MemoryBytes, r.AlignBytes)
	if usable <= 0 {
		return nil, fmt.Errorf("reserved-mem %d, memory-align-size %d: the node has %s bytes, none would be left: %w",
			r.MemoryBytes, r.AlignBytes, capacity[Memory].Plain(), ErrReservation)
	}
	return Amounts{CPU: cores, Memory: Int(usable)}, nil
}

// AlignMemory returns total − reserved, cut to a multiple of align bytes; it is
// never negative.
func AlignMemory(total, reserved, align int64) int64 {
	usable := max(total-reserved, 0)
	if align > 1 {
		usable -= usable % align
	}
	return usable
}
