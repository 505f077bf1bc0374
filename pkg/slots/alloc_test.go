// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"errors"
	"maps"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// slotShares is a list of the vectors: shares by slot, in order.
type slotShares []struct {
	Slot    string
	Devices [][2]string
}

// mapCase is one case of alloc/discrete.json.
type mapCase struct {
	ID, Description string
	Map             struct {
		Type, Strategy string
		Exclusive      []string `json:"exclusive_slot_types"`
		DeviceSlots    []struct {
			DeviceID string `json:"device_id"`
			Slot     string `json:"slot_name"`
			Type     Type   `json:"slot_type"`
			Amount   string
		} `json:"device_slots"`
	}
	Steps []struct {
		Op     string
		Slots  map[string]string
		Ref    string
		SaveAs string `json:"save_as"`
		Alloc  slotShares
		Expect struct {
			Result slotShares
			Error  *struct {
				Type       string
				Attributes struct {
					Slot      string `json:"slot_name"`
					Requested string `json:"requested_alloc"`
					Total     string `json:"total_allocatable"`
				}
			}
			Allocations slotShares
		}
	}
}

func (c mapCase) ledger(t *testing.T) *Ledger {
	var devices []Device
	policy := Policy{Exclusive: c.Map.Exclusive}
	for _, d := range c.Map.DeviceSlots {
		devices = append(devices, Device{Name: ParseName(d.Slot).Device, ID: d.DeviceID, Slot: d.Slot, Type: d.Type, Capacity: amount(t, d.Amount)})
		if c.Map.Strategy == "FILL" {
			policy.Fill = append(policy.Fill, d.Slot)
		}
	}
	l, err := NewLedger(devices, policy)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (s slotShares) allocation(t *testing.T) Allocation {
	a := Allocation{}
	for _, of := range s {
		for _, d := range of.Devices {
			device := ParseName(of.Slot).Device
			if a[device] == nil {
				a[device] = map[string]map[string]Amount{}
			}
			if a[device][of.Slot] == nil {
				a[device][of.Slot] = map[string]Amount{}
			}
			a[device][of.Slot][d[0]] = amount(t, d[1])
		}
	}
	return a
}

// shares returns the positive shares only, by slot: an allocation of nothing
// and no allocation are the same.
func shares(a Allocation) map[string]map[string]Amount {
	out := map[string]map[string]Amount{}
	a.each(func(_, slot, id string, amount Amount) {
		if amount.Sign() > 0 {
			if out[slot] == nil {
				out[slot] = map[string]Amount{}
			}
			out[slot][id] = amount
		}
	})
	return out
}

// TestDiscreteVectors replays the allocation maps of the reference. One thing
// is different here: a part of an indivisible thing is refused, where the
// reference hands it out (filling) or gives less than was asked for (evenly).
func TestDiscreteVectors(t *testing.T) {
	file := vectors[struct{ Cases []mapCase }](t, "alloc/discrete.json")
	for _, c := range file.Cases {
		t.Run(c.ID, func(t *testing.T) {
			l := c.ledger(t)
			held, saved := map[string]Allocation{}, map[string]string{}
			for i, step := range c.Steps {
				kernel := strconv.Itoa(i)
				switch step.Op {
				case "allocate":
					request := amountsOf(t, step.Slots)
					got, err := l.Allocate(held, request)
					if isFraction(request) && !errors.Is(err, ErrNotUnique) {
						if !errors.Is(err, ErrFraction) {
							t.Errorf("step %d: %v: %v, want ErrFraction", i, step.Slots, err)
						}
						return
					}
					if step.Expect.Error == nil && err == nil {
						held[kernel], saved[step.SaveAs] = got, kernel
						if diff := cmp.Diff(shares(step.Expect.Result.allocation(t)), shares(got)); diff != "" {
							t.Errorf("step %d: %v (-want +got):\n%s", i, step.Slots, diff)
						}
					} else {
						checkError(t, step.Expect.Error.Type, step.Expect.Error.Attributes.Slot, step.Expect.Error.Attributes.Total, err)
					}
				case "free":
					delete(held, saved[step.Ref])
				case "apply":
					held[kernel] = step.Alloc.allocation(t)
				case "clear":
					clear(held)
				default:
					t.Fatalf("unknown step %s", step.Op)
				}
				use := map[string]map[string]Amount(usageOf(maps.Values(held)))
				if diff := cmp.Diff(shares(step.Expect.Allocations.allocation(t)), use); diff != "" {
					t.Fatalf("step %d: held after %s (-want +got):\n%s", i, step.Op, diff)
				}
			}
		})
	}
}

func isFraction(request Amounts) bool {
	for _, a := range request {
		if !a.IsWhole() {
			return true
		}
	}
	return false
}

// checkError compares an error with one of the reference.
func checkError(t *testing.T, kind, slot, total string, err error) {
	t.Helper()
	var got *SlotError
	if !errors.As(err, &got) {
		t.Errorf("got %v, want %s", err, kind)
		return
	}
	switch kind {
	case "InsufficientResource":
		if errors.Is(err, ErrUnknownSlot) && total == "0" && got.Slot == slot {
			return // the reference's maps do not know which slots there are
		}
		if !errors.Is(err, ErrInsufficient) || got.Slot != slot || !got.Available.Equal(amount(t, total)) {
			t.Errorf("got %v, want slot %s with %s available", err, slot, total)
		}
	case "InvalidResourceCombination":
		if !errors.Is(err, ErrExclusive) {
			t.Errorf("got %v, want ErrExclusive", err)
		}
	case "InvalidResourceArgument":
		if !errors.Is(err, ErrNotUnique) {
			t.Errorf("got %v, want ErrNotUnique", err)
		}
	default:
		t.Errorf("unknown error of the vectors: %s", kind)
	}
}

// node is a machine with cores and memory.
func node(t testing.TB, cores int, memory int64, policy Policy) *Ledger {
	t.Helper()
	devices := []Device{{Name: Memory, ID: MemoryDevice, Slot: Memory, Type: Bytes, Capacity: Int(memory)}}
	for i := range cores {
		devices = append(devices, Device{Name: CPU, ID: strconv.Itoa(i), Slot: CPU, Capacity: Int(1), NUMANode: i * 2 / cores})
	}
	l, err := NewLedger(devices, policy)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAllocateErrors(t *testing.T) {
	policy := DefaultPolicy()
	policy.Limits = Amounts{CPU: Int(3), Memory: Int(1 << 30)}
	l := node(t, 4, 2<<30, policy)
	held := map[string]Allocation{"k": {CPU: {CPU: {"0": Int(1)}}}}
	for _, c := range []struct {
		request map[string]string
		err     error
		text    string
	}{
		{map[string]string{"cpu": "2", "mem": "1024"}, nil, ""},
		{map[string]string{"cpu": "2", "mem": "1024", "cuda.device": "0"}, nil, ""},
		{map[string]string{"cpu": "2.0", "mem": "1E+3"}, nil, ""},
		{map[string]string{"mem": "1024"}, ErrMissingSlot, "slot cpu: 0 requested: an amount above 0 must be asked for"},
		{map[string]string{"cpu": "0", "mem": "1024"}, ErrMissingSlot, ""},
		{map[string]string{"cpu": "1"}, ErrMissingSlot, ""},
		{map[string]string{"cpu": "1", "mem": "1024", "cuda.device": "1"}, ErrUnknownSlot, "slot cuda.device: 1 requested: this node has no such slot"},
		{map[string]string{"cpu": "-1", "mem": "1024"}, ErrNegative, "slot cpu: -1 requested: the amount must not be negative"},
		{map[string]string{"cpu": "1", "mem": "1024", "x": "-1"}, ErrNegative, ""},
		{map[string]string{"cpu": "3", "mem": "1024"}, ErrInsufficient, "slot cpu: 3 requested, 2 available: not enough is free"},
		{map[string]string{"cpu": "Infinity", "mem": "1024"}, ErrInsufficient, ""},
		{map[string]string{"cpu": "1", "mem": "2E+9"}, ErrInsufficient, "slot mem: 2000000000 requested, 1073741824 available: not enough is free"},
		{map[string]string{"cpu": "1", "mem": "1E+60"}, ErrInsufficient, ""},
		{map[string]string{"cpu": "0.5", "mem": "1024"}, ErrFraction, "slot cpu: 0.5 requested: the amount must be a whole number"},
		{map[string]string{"cpu": "1", "mem": "0.5"}, ErrFraction, ""},
	} {
		got, err := l.Allocate(held, amountsOf(t, c.request))
		if !errors.Is(err, c.err) {
			t.Errorf("%v: got %v, %v; want %v", c.request, got, err, c.err)
		}
		if c.text != "" && err != nil && err.Error() != c.text {
			t.Errorf("%v: got %q, want %q", c.request, err, c.text)
		}
		if err != nil && got != nil {
			t.Errorf("%v: an allocation beside an error: %v", c.request, got)
		}
	}
}

func TestAllocateResult(t *testing.T) {
	l := node(t, 4, 2<<30, DefaultPolicy())
	got, err := l.Allocate(nil, amountsOf(t, map[string]string{"cpu": "2", "mem": "1E+9"}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]map[string]string{
		"cpu": {"cpu": {"0": "1", "1": "1"}},
		"mem": {"mem": {"root": "1000000000"}},
	}
	if diff := cmp.Diff(want, got.Texts()); diff != "" {
		t.Error(diff)
	}
	back, err := ParseAllocation(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, back); diff != "" {
		t.Error(diff)
	}
	want["cpu"]["cpu"]["1"] = "x"
	if back, err = ParseAllocation(want); !errors.Is(err, ErrAmount) || !back[CPU][CPU]["0"].Equal(Int(1)) {
		t.Errorf("a bad amount: %v, %v", back, err)
	}
}

// What is held of devices that the node lost, or beyond what a device has, is
// reported and does not eat into other devices.
func TestDoubts(t *testing.T) {
	l := node(t, 4, 1<<30, DefaultPolicy())
	held := map[string]Allocation{
		"k1": {CPU: {CPU: {"0": Int(1), "9": Int(1)}}},
		"k2": {CPU: {CPU: {"0": Int(1), "1": Int(-5)}}, "cuda": {"cuda.device": {"3": Int(1), "4": Int(0)}}},
	}
	want := []Doubt{
		{Slot: CPU, Device: "0", Kernels: []string{"k1", "k2"}, Held: Int(2), Capacity: Int(1)},
		{Slot: CPU, Device: "9", Kernels: []string{"k1"}, Held: Int(1), Unknown: true},
		{Slot: "cuda.device", Device: "3", Kernels: []string{"k2"}, Held: Int(1), Unknown: true},
	}
	if diff := cmp.Diff(want, l.Doubts(held)); diff != "" {
		t.Error(diff)
	}
	if got := l.Available(held)[CPU]; !got.Equal(Int(3)) {
		t.Errorf("available cores: %s, want 3", got)
	}
}

func TestNewLedgerRefuses(t *testing.T) {
	core := Device{Name: CPU, ID: "0", Slot: CPU, Capacity: Int(1)}
	for what, d := range map[string]Device{
		"twice":    core,
		"no ID":    {Name: CPU, Slot: CPU},
		"foreign":  {Name: CPU, ID: "1", Slot: "cuda.device"},
		"negative": {Name: CPU, ID: "1", Slot: CPU, Capacity: Int(-1)},
		"infinite": {Name: CPU, ID: "1", Slot: CPU, Capacity: amount(t, "Infinity")},
		"type":     {Name: CPU, ID: "1", Slot: CPU, Type: Unique},
	} {
		if _, err := NewLedger([]Device{core, d}, Policy{}); !errors.Is(err, ErrDevice) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestOrder(t *testing.T) {
	for _, c := range []struct{ order, names, want []string }{
		{DefaultOrder(), []string{"cpu", "mem", "habana", "cuda"}, []string{"cuda", "habana", "cpu", "mem"}},
		{[]string{"mem", "cpu"}, []string{"cpu", "mem", "x"}, []string{"x", "mem", "cpu"}},
		{[]string{"cpu", "cuda", "mem"}, []string{"cuda", "cpu", "mem"}, []string{"cpu", "cuda", "mem"}},
		{nil, []string{"cpu", "x", "mem"}, []string{"x", "cpu", "mem"}},
		{[]string{"cuda"}, []string{"mem", "cuda", "cpu", "y"}, []string{"cuda", "y", "mem", "cpu"}},
	} {
		if diff := cmp.Diff(c.want, orderNames(c.names, c.order)); diff != "" {
			t.Errorf("%v by %v: %s", c.names, c.order, diff)
		}
	}
}

// Unified devices are offered and never allocated.
func TestUnified(t *testing.T) {
	l, err := NewLedger([]Device{{Name: "npu", ID: "0", Slot: "npu.unified", Type: Unified, Capacity: Int(1)}}, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Capacity()["npu.unified"]; !got.Equal(Int(1)) {
		t.Errorf("capacity %s", got)
	}
	if _, err := l.Allocate(nil, Amounts{"npu.unified": Int(1)}); !errors.Is(err, ErrInsufficient) {
		t.Errorf("got %v", err)
	}
}

func TestTypesAndIDs(t *testing.T) {
	l := node(t, 1, 1<<30, DefaultPolicy())
	if diff := cmp.Diff(map[string]Type{CPU: Count, Memory: Bytes}, l.Types()); diff != "" {
		t.Error(diff)
	}
	shares := map[string]Amount{"": Int(1), "007": Int(1), "GPU-b": Int(1), "GPU-a": Int(1), "10": Int(1), "9": Int(1), "0": Int(1), "1": Int(0)}
	got := Allocation{"x": {"x.device": shares}}.IDs("x.device")
	if diff := cmp.Diff([]string{"0", "9", "10", "", "007", "GPU-a", "GPU-b"}, got); diff != "" {
		t.Error(diff)
	}
}
