// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"fmt"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// keptEvents is how many events stay for people to read where no manager takes them.
const keptEvents = 1000

// Sink takes events to the manager.
type Sink interface {
	// Send returns once the manager's side has the event for good.
	Send(ctx context.Context, e apis.EventSpec) error
}

// Event delivers events, oldest first, one at a time.
type Event struct {
	// Sink is nil where there is no manager: events are kept for people then.
	Sink   Sink
	store  *controller.Store
	events controller.Reader[apis.EventSpec, apis.EventStatus]
	gone   controller.Deleter[apis.EventSpec, apis.EventStatus]
}

// NewEvent returns the event reconciler.
func NewEvent(s *controller.Store, t *controller.Tables, sink Sink) *Event {
	return &Event{Sink: sink, store: s, events: t.Events.Reader(), gone: t.Events.Deleter()}
}

// Reconcile delivers everything that waits, whatever name it is woken with: it
// stops at the first failure, so that the order is kept.
func (r *Event) Reconcile(ctx context.Context, _ string) (controller.Result, error) {
	if r.Sink == nil {
		return controller.Result{}, r.prune()
	}
	for _, name := range r.events.Names() {
		e, ok := r.events.Get(name)
		if !ok {
			continue
		}
		if err := r.Sink.Send(ctx, e.Spec); err != nil {
			return controller.Result{}, fmt.Errorf("sending %s of kernel %s: %w", e.Spec.Type, e.Spec.KernelID, err)
		}
		err := r.store.Commit(func(tx *controller.Tx) error {
			r.gone.Delete(tx, name, "", "")
			return nil
		})
		if err != nil {
			return controller.Result{}, err
		}
	}
	return controller.Result{}, nil
}

// prune drops the oldest events, a batch at a time so that it is rarely written.
func (r *Event) prune() error {
	if r.events.Len() < keptEvents+keptEvents/10 {
		return nil
	}
	names := r.events.Names()
	return r.store.Commit(func(tx *controller.Tx) error {
		for _, name := range names[:len(names)-keptEvents] {
			r.gone.Delete(tx, name, "", "")
		}
		return nil
	})
}

// Report has nothing to add: an event that waits is visible as such.
func (r *Event) Report(string, error) {}
