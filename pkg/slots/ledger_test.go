// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLedgerInvariants makes and frees allocations at random: no device gives
// more than it has, an allocation has exactly what was asked for, equal input
// gives an equal result, refusal is for a reason, and freeing everything
// leaves the node as it was.
func TestLedgerInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var devices []Device
		for i := range rapid.IntRange(1, 8).Draw(t, "cores") {
			devices = append(devices, Device{Name: CPU, ID: strconv.Itoa(i), Slot: CPU, Capacity: Int(int64(rapid.IntRange(0, 3).Draw(t, "factor")))})
		}
		memory := rapid.Int64Range(0, 1000).Draw(t, "memory")
		devices = append(devices, Device{Name: Memory, ID: MemoryDevice, Slot: Memory, Type: Bytes, Capacity: Int(memory)})
		policy := Policy{}
		if rapid.Bool().Draw(t, "fill") {
			policy.Fill = []string{CPU, Memory}
		}
		if rapid.Bool().Draw(t, "limited") {
			policy.Limits = Amounts{CPU: Int(rapid.Int64Range(0, 10).Draw(t, "limit"))}
		}
		l, err := NewLedger(devices, policy)
		if err != nil {
			t.Fatal(err)
		}
		fresh := l.Available(nil)
		held := map[string]Allocation{}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(held) > 0 && rapid.IntRange(0, 2).Draw(t, "free") == 0 {
				delete(held, rapid.SampledFrom(slices.Sorted(maps.Keys(held))).Draw(t, "kernel"))
				continue
			}
			request := Amounts{CPU: Int(rapid.Int64Range(0, 6).Draw(t, "cpu")), Memory: Int(rapid.Int64Range(0, 400).Draw(t, "mem"))}
			got, err := l.Allocate(held, request)
			again, _ := l.Allocate(held, request)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Fatalf("the second answer differs:\n%s", diff)
			}
			fits := request.LessEqual(l.Available(held))
			if fits != (err == nil) {
				t.Fatalf("%v of %v: %v", request, l.Available(held), err)
			}
			if err != nil {
				continue
			}
			if !got.Total().Equal(request) {
				t.Fatalf("asked for %v, got %v", request, got)
			}
			held[strconv.Itoa(i)] = got
			if doubts := l.Doubts(held); len(doubts) > 0 {
				t.Fatalf("over-allocated: %+v", doubts)
			}
			if limit, ok := policy.Limits[CPU]; ok && limit.Less(sum(held)[CPU]) {
				t.Fatalf("limit %s, held %v", limit, sum(held))
			}
		}
		clear(held)
		if diff := cmp.Diff(fresh, l.Available(held)); diff != "" {
			t.Fatalf("after freeing everything:\n%s", diff)
		}
	})
}

func sum(held map[string]Allocation) Amounts {
	total := Amounts{}
	for _, a := range held {
		total = total.Add(a.Total())
	}
	return total
}

// BenchmarkAllocate asks a large node with 256 cores that is shared by 500
// kernels (four to a core) for one more kernel.
func BenchmarkAllocate(b *testing.B) {
	devices := []Device{{Name: Memory, ID: MemoryDevice, Slot: Memory, Type: Bytes, Capacity: Int(4 << 40)}}
	for i := range 256 {
		devices = append(devices, Device{Name: CPU, ID: strconv.Itoa(i), Slot: CPU, Capacity: Int(8)})
	}
	l, err := NewLedger(devices, DefaultPolicy())
	if err != nil {
		b.Fatal(err)
	}
	request := Amounts{CPU: Int(2), Memory: Int(4 << 30)}
	held := map[string]Allocation{}
	for i := range 500 {
		if held[fmt.Sprint("kernel-", i)], err = l.Allocate(held, request); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := l.Allocate(held, request); err != nil {
			b.Fatal(err)
		}
	}
}
