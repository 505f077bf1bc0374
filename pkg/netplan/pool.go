// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Reasons why a host port cannot be had.
var (
	// ErrPortsExhausted says that the pool has too few free ports.
	ErrPortsExhausted = errors.New("no host port is free; widen container.port-range or end kernels")
	// ErrPortHeld says that a certain host port is somebody else's.
	ErrPortHeld = errors.New("host port is held by another")
)

// ExhaustedError says how many ports were wanted and could be had.
type ExhaustedError struct {
	Wanted, Free int
	// Cooling counts ports that were released too recently; NextAt is when the
	// first of them can be used again.
	Cooling int
	NextAt  time.Time
}

// Error tells the numbers.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("%d host ports wanted, %d free, %d released too recently: %v", e.Wanted, e.Free, e.Cooling, ErrPortsExhausted)
}

// Unwrap returns [ErrPortsExhausted].
func (e *ExhaustedError) Unwrap() error { return ErrPortsExhausted }

// HeldError says which port is whose.
type HeldError struct {
	Port   int
	Holder string
}

// Error names the port and its holder.
func (e *HeldError) Error() string {
	return fmt.Sprintf("host port %d: held by %s: %v", e.Port, e.Holder, ErrPortHeld)
}

// Unwrap returns [ErrPortHeld].
func (e *HeldError) Unwrap() error { return ErrPortHeld }

// PortRange is a range of ports, both ends included.
type PortRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// Check makes sure that the range has usable ports.
func (r PortRange) Check() error {
	if r.First < 1 || r.Last > maxPort || r.First > r.Last {
		return fmt.Errorf("port range %d to %d: must be within 1 to %d and not be reversed: %w", r.First, r.Last, maxPort, ErrPortNumber)
	}
	return nil
}

func (r PortRange) has(port int) bool { return port >= r.First && port <= r.Last }

// PortPool is which host ports are whose. It is a value: methods return the
// changed pool and leave the receiver as it is, so what goes wrong needs no
// undoing. The zero value with a range is an empty pool.
type PortPool struct {
	Range PortRange `json:"range"`
	// Cooldown is how long a released port stays unused, so that its late
	// packets do not reach the next holder.
	Cooldown time.Duration `json:"cooldown"`
	// Held gives the holder of each port: a kernel ID, or any other name.
	Held map[int]string `json:"held,omitempty"`
	// Released is when free ports of the range were given back.
	Released map[int]time.Time `json:"released,omitempty"`
}

// PortAsk is a request for host ports.
type PortAsk struct {
	// Holder gets the ports.
	Holder string
	// Ports has one entry for each: 0 for any of the pool, or a certain port,
	// also outside of the range.
	Ports []int
	// Avoid are ports that turned out to be used by strangers.
	Avoid []int
	// NoCooldown takes ports that were just released too (assign_port, 26.8).
	NoCooldown bool
}

// Acquire leases host ports, all or none, in the order of the request. Ports
// that were free longest come first, then by number. A certain port that the
// holder has already is granted; cooldown does not apply to certain ports.
func (p PortPool) Acquire(now time.Time, ask PortAsk) (PortPool, []int, error) {
	leased := make(map[int]bool, len(ask.Ports))
	granted := slices.Clone(ask.Ports)
	anyOf := 0
	for _, port := range ask.Ports {
		holder, held := p.Held[port]
		switch {
		case port == 0:
			anyOf++
		case port < 1 || port > maxPort:
			return p, nil, fmt.Errorf("host port %d: %w", port, ErrPortNumber)
		case held && holder != ask.Holder:
			return p, nil, &HeldError{Port: port, Holder: holder}
		case leased[port]:
			return p, nil, fmt.Errorf("host port %d: asked for twice: %w", port, ErrPortConflict)
		default:
			leased[port] = true
		}
	}
	free, cooling := p.free(now, ask, leased)
	if len(free) < anyOf {
		return p, nil, exhausted(anyOf, len(free), cooling, p.Cooldown)
	}
	for i, port := range granted {
		if port == 0 {
			granted[i], free = free[0], free[1:]
		}
	}
	next := p.copied()
	for _, port := range granted {
		next.Held[port] = ask.Holder
		delete(next.Released, port)
	}
	return next, granted, nil
}

// free lists the ports of the range that can be handed out, in the order of
// handing out, and the release times of those that are still cooling down.
func (p PortPool) free(now time.Time, ask PortAsk, taken map[int]bool) (ports []int, cooling []time.Time) {
	avoid := make(map[int]bool, len(ask.Avoid))
	for _, port := range ask.Avoid {
		avoid[port] = true
	}
	for port := p.Range.First; port <= p.Range.Last; port++ {
		if _, held := p.Held[port]; held || taken[port] || avoid[port] {
			continue
		}
		if at, used := p.Released[port]; used && !ask.NoCooldown && now.Before(at.Add(p.Cooldown)) {
			cooling = append(cooling, at)
			continue
		}
		ports = append(ports, port)
	}
	slices.SortStableFunc(ports, func(a, b int) int {
		return cmp.Or(p.Released[a].Compare(p.Released[b]), a-b)
	})
	return ports, cooling
}

func exhausted(wanted, free int, cooling []time.Time, cooldown time.Duration) error {
	e := &ExhaustedError{Wanted: wanted, Free: free, Cooling: len(cooling)}
	if len(cooling) > 0 {
		e.NextAt = slices.MinFunc(cooling, time.Time.Compare).Add(cooldown)
	}
	return e
}

// ReleaseAll gives all ports of a holder back.
func (p PortPool) ReleaseAll(now time.Time, holder string) PortPool {
	return p.Release(now, holder, p.Of(holder)...)
}

// Release gives ports back that the holder has. Ports that are not the
// holder's are left alone, so releasing twice is safe.
func (p PortPool) Release(now time.Time, holder string, ports ...int) PortPool {
	next := p.copied()
	for _, port := range ports {
		if by, held := p.Held[port]; !held || by != holder {
			continue
		}
		delete(next.Held, port)
		if p.Range.has(port) {
			next.Released[port] = now
		}
	}
	return next
}

// Reserve notes that ports are in use, whatever the pool says: what runs on the
// node is the truth. It returns the former holders of ports that were
// another's, for the log.
func (p PortPool) Reserve(holder string, ports ...int) (PortPool, map[int]string) {
	next := p.copied()
	displaced := map[int]string{}
	for _, port := range ports {
		if by, held := p.Held[port]; held && by != holder {
			displaced[port] = by
		}
		next.Held[port] = holder
		delete(next.Released, port)
	}
	return next, displaced
}

// Of returns the ports of a holder in ascending order.
func (p PortPool) Of(holder string) []int {
	var ports []int
	for port, by := range p.Held {
		if by == holder {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

// Free counts the ports of the range that nobody holds, cooling ones included.
func (p PortPool) Free() int {
	free := p.Range.Last - p.Range.First + 1
	for port := range p.Held {
		if p.Range.has(port) {
			free--
		}
	}
	return free
}

func (p PortPool) copied() PortPool {
	next := p
	next.Held = make(map[int]string, len(p.Held))
	maps.Copy(next.Held, p.Held)
	next.Released = make(map[int]time.Time, len(p.Released))
	maps.Copy(next.Released, p.Released)
	return next
}
