// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func pool(first, last int) PortPool {
	return PortPool{Range: PortRange{first, last}, Cooldown: time.Minute}
}

func TestPoolAcquire(t *testing.T) {
	now := start()
	p, got, err := pool(30000, 30005).Acquire(now, PortAsk{Holder: "k1", Ports: []int{0, 30002, 0, 40000, 0}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{30000, 30002, 30001, 40000, 30003}, got); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]int{30000, 30001, 30002, 30003, 40000}, p.Of("k1")); diff != "" {
		t.Error(diff)
	}
	if p.Free() != 2 {
		t.Errorf("free: %d", p.Free())
	}

	// All or none, and the pool is unchanged.
	same, got, err := p.Acquire(now, PortAsk{Holder: "k2", Ports: []int{0, 0, 0}})
	var full *ExhaustedError
	if !errors.As(err, &full) || full.Wanted != 3 || full.Free != 2 || full.Cooling != 0 || got != nil || !errors.Is(err, ErrPortsExhausted) {
		t.Errorf("%v, %v", got, err)
	}
	if want := "3 host ports wanted, 2 free, 0 released too recently: no host port is free; widen container.port-range or end kernels"; full.Error() != want {
		t.Errorf("got %q", full)
	}
	if diff := cmp.Diff(p, same); diff != "" {
		t.Error(diff)
	}
	if _, _, err = p.Acquire(now, PortAsk{Holder: "k2", Ports: []int{0, 0}, Avoid: []int{30004}}); !errors.Is(err, ErrPortsExhausted) {
		t.Errorf("avoid: %v", err)
	}

	// A certain port of another is refused, one's own is granted again.
	var held *HeldError
	if _, _, err = p.Acquire(now, PortAsk{Holder: "k2", Ports: []int{30002}}); !errors.As(err, &held) || held.Holder != "k1" || !errors.Is(err, ErrPortHeld) {
		t.Errorf("held: %v", err)
	}
	if want := "host port 30002: held by k1: host port is held by another"; held.Error() != want {
		t.Errorf("got %q", held)
	}
	if _, got, err = p.Acquire(now, PortAsk{Holder: "k1", Ports: []int{30002}}); err != nil || got[0] != 30002 {
		t.Errorf("own: %v, %v", got, err)
	}
	if _, _, err = p.Acquire(now, PortAsk{Holder: "k2", Ports: []int{30004, 30004}}); !errors.Is(err, ErrPortConflict) {
		t.Errorf("twice: %v", err)
	}
	for _, bad := range []int{-1, 65536} {
		if _, _, err = p.Acquire(now, PortAsk{Holder: "k2", Ports: []int{bad}}); !errors.Is(err, ErrPortNumber) {
			t.Errorf("%d: %v", bad, err)
		}
	}
	// A certain port and "any" of one request never coincide.
	if _, got, err = pool(1, 2).Acquire(now, PortAsk{Holder: "k", Ports: []int{0, 1}}); err != nil || !slices.Equal(got, []int{2, 1}) {
		t.Errorf("certain and any: %v, %v", got, err)
	}
}

func TestPoolCooldown(t *testing.T) {
	now := start()
	p, _, err := pool(1, 3).Acquire(now, PortAsk{Holder: "k", Ports: []int{0, 0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	p = p.Release(now.Add(time.Second), "k", 2)
	p = p.Release(now.Add(2*time.Second), "k", 1)
	p = p.Release(now, "stranger", 3)   // not its port
	p = p.ReleaseAll(now, "stranger")   // nothing
	p = p.Release(now, "k", 2, 9, 1, 1) // released already: the time stays
	var full *ExhaustedError
	if _, _, err := p.Acquire(now.Add(60*time.Second), PortAsk{Holder: "l", Ports: []int{0}}); !errors.As(err, &full) ||
		full.Cooling != 2 || !full.NextAt.Equal(now.Add(61*time.Second)) {
		t.Errorf("cooling: %v", err)
	}
	if _, got, err := p.Acquire(now, PortAsk{Holder: "l", Ports: []int{0}, NoCooldown: true}); err != nil || got[0] != 2 {
		t.Errorf("without cooldown: %v, %v", got, err)
	}
	if _, got, err := p.Acquire(now, PortAsk{Holder: "l", Ports: []int{1}}); err != nil || got[0] != 1 {
		t.Errorf("a certain port: %v, %v", got, err)
	}
	// Longest free first.
	p, got, err := p.Acquire(now.Add(5*time.Minute), PortAsk{Holder: "l", Ports: []int{0, 0}})
	if err != nil || !slices.Equal(got, []int{2, 1}) {
		t.Errorf("after the cooldown: %v, %v", got, err)
	}
	if diff := cmp.Diff(map[int]string{1: "l", 2: "l", 3: "k"}, p.Held); diff != "" {
		t.Error(diff)
	}
}

func TestPoolReserve(t *testing.T) {
	p, _, err := pool(1, 3).Acquire(start(), PortAsk{Holder: "k", Ports: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	next, displaced := p.Reserve("live", 1, 2, 8080)
	if diff := cmp.Diff(map[int]string{1: "k"}, displaced); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{1, 2, 8080}, next.Of("live")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{1}, p.Of("k")); diff != "" {
		t.Errorf("the receiver was changed: %s", diff)
	}
	next = next.ReleaseAll(start(), "live")
	if len(next.Held) != 0 || len(next.Released) != 2 {
		t.Errorf("only ports of the range come back: %+v", next)
	}
}

func TestPoolJSON(t *testing.T) {
	p, _, err := pool(1, 3).Acquire(start(), PortAsk{Holder: "k", Ports: []int{0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	p = p.Release(start(), "k", 1)
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back PortPool
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back); diff != "" {
		t.Error(diff)
	}
}

func TestPortRange(t *testing.T) {
	if err := (PortRange{30000, 31000}).Check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []PortRange{{0, 1}, {2, 1}, {1, 65536}, {-5, 5}} {
		if err := bad.Check(); !errors.Is(err, ErrPortNumber) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestPoolInvariants acquires, releases and reserves at random: no port has
// two holders, nobody gets a port of another or one that cools down, a failed
// call and a past value change nothing, and releasing all frees all.
func TestPoolInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pool(1, rapid.IntRange(1, 12).Draw(t, "last"))
		now := start()
		holders := rapid.SampledFrom([]string{"a", "b", "c"})
		port := rapid.IntRange(1, 14)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "seconds")) * time.Second)
			before := p.copied()
			holder := holders.Draw(t, "holder")
			var next PortPool
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				next = p.Release(now, holder, port.Draw(t, "port"))
			case 1:
				next = p.ReleaseAll(now, holder)
			case 2:
				next, _ = p.Reserve(holder, port.Draw(t, "port"))
			default:
				ask := PortAsk{
					Holder:     holder,
					Ports:      rapid.SliceOfN(rapid.OneOf(rapid.Just(0), port), 1, 4).Draw(t, "ports"),
					Avoid:      rapid.SliceOfN(port, 0, 2).Draw(t, "avoid"),
					NoCooldown: rapid.Bool().Draw(t, "nocooldown"),
				}
				var got []int
				var err error
				next, got, err = p.Acquire(now, ask)
				if err != nil {
					if diff := cmp.Diff(before, next, cmpopts.EquateEmpty()); diff != "" {
						t.Fatalf("a failed call changed the pool: %s", diff)
					}
					break
				}
				checkGrant(t, before, now, ask, got)
				for _, g := range got {
					if next.Held[g] != holder {
						t.Fatalf("port %d was granted to %s and is held by %q", g, holder, next.Held[g])
					}
				}
			}
			if diff := cmp.Diff(before, p, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("the receiver was changed: %s", diff)
			}
			p = next
			for free := range p.Released {
				if p.Held[free] != "" || !p.Range.has(free) {
					t.Fatalf("port %d is both held and released, or not of the range", free)
				}
			}
		}
		for _, h := range slices.Collect(maps.Values(p.Held)) {
			p = p.ReleaseAll(now, h)
		}
		if p.Free() != p.Range.Last-p.Range.First+1 || len(p.Held) != 0 {
			t.Fatalf("after releasing all: %+v", p)
		}
	})
}

func checkGrant(t *rapid.T, before PortPool, now time.Time, ask PortAsk, got []int) {
	seen := map[int]bool{}
	for i, g := range got {
		if seen[g] || before.Held[g] != "" && before.Held[g] != ask.Holder {
			t.Fatalf("port %d was taken", g)
		}
		seen[g] = true
		if want := ask.Ports[i]; want != 0 {
			if g != want {
				t.Fatalf("asked for %d, got %d", want, g)
			}
			continue
		}
		at, cooling := before.Released[g]
		if !before.Range.has(g) || slices.Contains(ask.Avoid, g) || before.Held[g] != "" || cooling && !ask.NoCooldown && now.Sub(at) < before.Cooldown {
			t.Fatalf("port %d must not be handed out by %+v", g, before)
		}
	}
}

// BenchmarkPool takes and gives back four ports of a pool that 240 kernels use.
func BenchmarkPool(b *testing.B) {
	p := pool(30000, 31000)
	var err error
	for i := range 240 {
		if p, _, err = p.Acquire(start(), PortAsk{Holder: string(rune('a' + i)), Ports: []int{0, 0, 0, 0}}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		next, _, err := p.Acquire(start(), PortAsk{Holder: "new", Ports: []int{0, 0, 0, 0}})
		if err != nil {
			b.Fatal(err)
		}
		next.ReleaseAll(start(), "new")
	}
}
