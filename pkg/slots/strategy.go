// SPDX-License-Identifier: Apache-2.0

package slots

import "slices"

// share is a part of a device: what is free of it, or what is given.
type share struct {
	id     string
	amount Amount
}

// mostFreeFirst orders candidates; equal ones stay in the order of declaration.
func mostFreeFirst(free []share) []share {
	ordered := slices.Clone(free)
	slices.SortStableFunc(ordered, func(a, b share) int { return b.amount.Cmp(a.amount) })
	return ordered
}

// allocatable is what a discrete slot can still give: whole units of each device.
func allocatable(free []share) Amount {
	var total Amount
	for _, f := range free {
		total = total.Add(f.amount.trunc())
	}
	return total
}

// fill takes all of the freest device, then of the next. want is at most
// allocatable(free). The result is in the order of taking.
func fill(free []share, want Amount) []share {
	var given []share
	for _, f := range mostFreeFirst(free) {
		step := f.amount.min(want)
		if step.Sign() <= 0 {
			break
		}
		given = append(given, share{f.id, step.canonical()})
		want = want.Sub(step)
	}
	return given
}

// even deals whole units out in rounds until nothing is wanted any more. want
// is a whole number and at most allocatable(free). The result is in the order
// of declaration.
func even(free []share, want int64) []share {
	type room struct {
		index       int
		left, given int64
	}
	ordered := make([]room, len(free))
	for i, f := range free {
		ordered[i] = room{index: i, left: f.amount.Int64Clamped()}
	}
	slices.SortStableFunc(ordered, func(a, b room) int { return free[b.index].amount.Cmp(free[a.index].amount) })
	for want > 0 {
		var open []*room
		for i := range ordered {
			if ordered[i].left > 0 {
				open = append(open, &ordered[i])
			}
		}
		if len(open) == 0 {
			break
		}
		base, extra := want/int64(len(open)), want%int64(len(open))
		for i, r := range open {
			part := base
			if int64(i) < extra {
				part++
			}
			part = min(part, r.left)
			r.left -= part
			r.given += part
			want -= part
		}
	}
	slices.SortFunc(ordered, func(a, b room) int { return a.index - b.index })
	var given []share
	for _, r := range ordered {
		if r.given > 0 {
			given = append(given, share{free[r.index].id, Int(r.given)})
		}
	}
	return given
}
