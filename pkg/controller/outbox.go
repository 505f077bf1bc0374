// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"agentd/pkg/apis"
)

// Outbox writes events, each in the transaction of the change that caused it.
type Outbox struct {
	events SpecWriter[apis.EventSpec, apis.EventStatus]

	mu   sync.Mutex
	last int64
}

// NewOutbox continues after the events that the store already has.
func NewOutbox(t *Tables) *Outbox {
	o := &Outbox{events: t.Events.SpecWriter()}
	for _, name := range t.Events.Reader().Names() {
		if n, err := strconv.ParseInt(name, 10, 64); err == nil {
			o.last = max(o.last, n)
		}
	}
	return o
}

// Add stores the event. Names grow with time and never go back, so that they
// sort in the order of the commits.
func (o *Outbox) Add(tx *Tx, e apis.EventSpec) error {
	o.mu.Lock()
	o.last = max(o.last+1, time.Now().UnixNano())
	name := fmt.Sprintf("%020d", o.last)
	o.mu.Unlock()
	e.At = time.Now().UTC()
	return o.events.Apply(tx, apis.Meta{Name: name}, e)
}

// LastEnd returns the event that reported a kernel's end, while it is kept.
func LastEnd(events Reader[apis.EventSpec, apis.EventStatus], kernelID string) (apis.EventSpec, bool) {
	var out apis.EventSpec
	var found bool
	for _, e := range events.List() {
		if e.Spec.KernelID == kernelID && e.Spec.Type == apis.EventKernelTerminated {
			out, found = e.Spec, true
		}
	}
	return out, found
}
