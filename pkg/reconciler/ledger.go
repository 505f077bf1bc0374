// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/netplan"
	"agentd/pkg/slots"
)

// setAside is how long a port is not tried again after it turned out to be
// used by something that agentd knows nothing of.
const setAside = time.Minute

// LedgerConfig says what this node has to give.
type LedgerConfig struct {
	Slots *slots.Ledger
	// PortFirst and PortLast are the inclusive range of host ports.
	PortFirst, PortLast int
	// Cooldown is how long a port rests after its kernel ended, so that old
	// clients do not reach a new kernel.
	Cooldown time.Duration
	// PortFree reports whether nothing on the node listens on the address; nil: always.
	PortFree func(hostIP string, port int) bool
}

// Ledger hands out what the node has. What is held stands in the bindings
// themselves: they are its entries, and nothing is kept twice.
type Ledger struct {
	LedgerConfig
	bindings controller.Reader[apis.BindingSpec, apis.BindingStatus]

	mu       sync.Mutex
	released map[int]time.Time // port → when its kernel ended
	aside    map[int]time.Time // port used by a stranger → when it is tried again
}

// NewLedger returns a ledger over the bindings of the tables.
func NewLedger(t *controller.Tables, cfg LedgerConfig) *Ledger {
	return &Ledger{LedgerConfig: cfg, bindings: t.Bindings.Reader(), released: map[int]time.Time{}, aside: map[int]time.Time{}}
}

// held lists the allocations by kernel, and the leased ports, of all bindings but one.
func (l *Ledger) held(tx *controller.Tx, except string) (map[string]slots.Allocation, map[int]string) {
	devices, ports := map[string]slots.Allocation{}, map[int]string{}
	l.bindings.Range(tx, func(b *apis.Binding) bool {
		if b.Name == except {
			return true
		}
		if len(b.Status.Allocations) > 0 {
			devices[b.Name] = allocation(b)
		}
		for _, p := range b.Status.Ports {
			ports[p.Host] = b.Name
		}
		return true
	})
	return devices, ports
}

// Allocated sums what is held, by slot name.
func (l *Ledger) Allocated(tx *controller.Tx) map[string]string {
	total := slots.Amounts{}
	devices, _ := l.held(tx, "")
	for _, a := range devices {
		total = total.Add(a.Total())
	}
	return total.Texts()
}

// lease finds host ports for a binding, all or nothing. Leases that it has and
// still wants are kept.
func (l *Ledger) lease(b *apis.Binding, leased map[int]string) ([]apis.PortLease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, p := range b.Spec.AvoidPorts {
		l.aside[p] = now.Add(setAside)
	}
	maps.DeleteFunc(l.aside, func(_ int, end time.Time) bool { return !end.After(now) })
	pool := netplan.PortPool{
		Range: netplan.PortRange{First: l.PortFirst, Last: l.PortLast}, Cooldown: l.Cooldown, Held: leased, Released: l.released,
	}
	ask := netplan.PortAsk{Holder: b.Name, Avoid: slices.Collect(maps.Keys(l.aside))}
	var news []int // the requests that get a port which was not theirs before
	for i, want := range b.Spec.Ports {
		port := want.Host
		if port != 0 && slices.Contains(b.Spec.AvoidPorts, port) {
			return nil, apis.Terminalf(apis.ReasonPortInUse, "host port %d of service %s is used by another program", port, want.Service)
		}
		if j := slices.IndexFunc(b.Status.Ports, func(h apis.PortLease) bool { return sameRequest(h, want) }); port == 0 && j >= 0 &&
			!slices.Contains(b.Spec.AvoidPorts, b.Status.Ports[j].Host) {
			port = b.Status.Ports[j].Host
		}
		if port == 0 {
			news = append(news, i)
		}
		ask.Ports = append(ask.Ports, port)
	}
	for {
		_, got, err := pool.Acquire(now, ask)
		if err != nil {
			return nil, apis.Terminal(portReason(err), fmt.Errorf("kernel %s: %w", b.Name, err))
		}
		busy := l.busy(b.Spec.Ports, got, news)
		if len(busy) == 0 {
			return leases(b.Spec.Ports, got), nil
		}
		ask.Avoid = append(ask.Avoid, busy...)
	}
}

// busy returns those of the new ports that something else listens on.
func (l *Ledger) busy(wants []apis.PortRequest, got, news []int) []int {
	var out []int
	for _, i := range news {
		if l.PortFree != nil && !l.PortFree(wants[i].HostIP, got[i]) {
			out = append(out, got[i])
		}
	}
	return out
}

func leases(wants []apis.PortRequest, got []int) []apis.PortLease {
	out := make([]apis.PortLease, len(wants))
	for i, w := range wants {
		out[i] = apis.PortLease{Service: w.Service, Container: w.Container, HostIP: w.HostIP, Host: got[i]}
	}
	return out
}

func sameRequest(h apis.PortLease, want apis.PortRequest) bool {
	return h.Service == want.Service && h.Container == want.Container && h.HostIP == want.HostIP
}

func portReason(err error) string {
	if errors.Is(err, netplan.ErrPortsExhausted) {
		return apis.ReasonPortsExhausted
	}
	return apis.ReasonPortInUse
}

// rest keeps ports from being given out for a while.
func (l *Ledger) rest(ports []apis.PortLease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range ports {
		l.released[p.Host] = time.Now()
	}
}
