// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The reference adds the remainder before it cuts, so its result is up to one
// alignment higher than ours; ours never exceeds what is there.
func TestAlignMemoryVectors(t *testing.T) {
	file := vectors[struct {
		Align []struct{ Total, Reserved, Align, Usable string } `json:"align_memory"`
	}](t, "alloc/arith.json")
	for _, c := range file.Align {
		total, reserved := amount(t, c.Total).Int64Clamped(), amount(t, c.Reserved).Int64Clamped()
		align, reference := amount(t, c.Align).Int64Clamped(), amount(t, c.Usable).Int64Clamped()
		got := AlignMemory(total, reserved, align)
		if got%align != 0 || got > total-reserved || got <= total-reserved-align || got > reference || got < reference-align {
			t.Errorf("AlignMemory(%d, %d, %d) = %d; the reference has %d", total, reserved, align, got, reference)
		}
	}
	if got := AlignMemory(10, 20, 16); got != 0 {
		t.Errorf("more reserved than there is: %d", got)
	}
	if got := AlignMemory(31, 1, 0); got != 30 {
		t.Errorf("no alignment: %d", got)
	}
}

// even deals out as the reference's distribute does.
func TestDistributeVectors(t *testing.T) {
	file := vectors[struct {
		Distribute []struct {
			Items, Groups int64
			Result        []int64
		}
	}](t, "alloc/arith.json")
	for _, c := range file.Distribute {
		free := make([]share, c.Groups)
		for i := range free {
			free[i] = share{string(rune('a' + i)), Int(1000)}
		}
		got := make([]int64, c.Groups)
		for _, s := range even(free, c.Items) {
			got[slices.IndexFunc(free, func(f share) bool { return f.id == s.id })], _ = s.amount.Int64()
		}
		if diff := cmp.Diff(c.Result, got); diff != "" {
			t.Errorf("%d in %d (-want +got):\n%s", c.Items, c.Groups, diff)
		}
	}
}

// Of partition.json the cases of one agent a node apply; there is no other.
func TestPartitionVectors(t *testing.T) {
	file := vectors[struct {
		Cases []struct {
			ID, Mode  string
			Agents    int `json:"num_agents"`
			Reserved  map[string]string
			Align     string `json:"memory_align_size"`
			Computers []struct {
				Name string `json:"device_name"`
				Map  struct {
					DeviceSlots []struct {
						ID     string `json:"device_id"`
						Slot   string `json:"slot_name"`
						Amount string
					} `json:"device_slots"`
				}
			}
			Expect struct {
				Error  string
				Agents []struct{ Reported map[string]string }
			}
		}
	}](t, "resources/partition.json")
	ran := 0
	for _, c := range file.Cases {
		if c.Agents != 1 || c.Mode != "shared" {
			continue
		}
		ran++
		var devices []Device
		for _, computer := range c.Computers {
			for _, d := range computer.Map.DeviceSlots {
				devices = append(devices, Device{Name: computer.Name, ID: d.ID, Slot: d.Slot, Capacity: amount(t, d.Amount)})
			}
		}
		l, err := NewLedger(devices, DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		reserved := amountsOf(t, c.Reserved)
		r := Reservation{Cores: reserved[CPU].Int64Clamped(), MemoryBytes: reserved[Memory].Int64Clamped(), AlignBytes: amount(t, c.Align).Int64Clamped()}
		limits, err := r.Limits(l.Capacity())
		if c.Expect.Error != "" {
			if !errors.Is(err, ErrReservation) {
				t.Errorf("%s: %v, want ErrReservation", c.ID, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		policy := DefaultPolicy()
		policy.Limits = limits
		if l, err = NewLedger(devices, policy); err != nil {
			t.Fatal(err)
		}
		want := amountsOf(t, c.Expect.Agents[0].Reported)
		got := l.Capacity()
		// Memory differs by at most one alignment, downward: see above.
		if lost := want[Memory].Sub(got[Memory]); lost.Sign() < 0 || Int(r.AlignBytes).Less(lost) {
			t.Errorf("%s: memory %s, the reference has %s", c.ID, got[Memory], want[Memory])
		}
		want[Memory] = got[Memory]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.ID, diff)
		}
	}
	if ran != 5 {
		t.Errorf("%d cases ran", ran)
	}
}

func TestReservationRefused(t *testing.T) {
	capacity := Amounts{CPU: Int(4), Memory: Int(1 << 30)}
	for _, r := range []Reservation{
		{Cores: 4}, {Cores: -1}, {MemoryBytes: -1}, {MemoryBytes: 1 << 30}, {AlignBytes: 1 << 31}, {Cores: 5, MemoryBytes: 1},
	} {
		if limits, err := r.Limits(capacity); !errors.Is(err, ErrReservation) {
			t.Errorf("%+v: %v, %v", r, limits, err)
		}
	}
	if _, err := DefaultReservation().Limits(Amounts{CPU: Int(2), Memory: Int(2 << 30)}); err != nil {
		t.Error(err)
	}
}
