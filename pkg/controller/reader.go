// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"

	"agentd/pkg/apis"
)

// Reader reads the objects of one kind.
type Reader[S, T any] struct{ t *Table[S, T] }

// Key returns the key of the object of that name, whether it exists or not.
func (r Reader[S, T]) Key(name string) apis.Key { return r.t.key(name) }

// Get returns a copy of an object.
func (r Reader[S, T]) Get(name string) (*apis.Object[S, T], bool) {
	r.t.s.mu.RLock()
	o := r.t.visible[name]
	r.t.s.mu.RUnlock()
	if o == nil {
		return nil, false
	}
	return r.t.clone(o), true
}

// GetIn returns a copy of an object as the transaction sees it, with what it staged.
func (r Reader[S, T]) GetIn(tx *Tx, name string) (*apis.Object[S, T], bool) {
	o := r.t.get(tx, name)
	if o == nil {
		return nil, false
	}
	return r.t.clone(o), true
}

// HasIn reports whether the object exists as the transaction sees it.
func (r Reader[S, T]) HasIn(tx *Tx, name string) bool { return r.t.get(tx, name) != nil }

// List returns copies of all objects, by name.
func (r Reader[S, T]) List() []*apis.Object[S, T] {
	r.t.s.mu.RLock()
	out := make([]*apis.Object[S, T], 0, len(r.t.visible))
	for _, n := range r.t.visibleNames() {
		out = append(out, r.t.visible[n])
	}
	r.t.s.mu.RUnlock()
	for i, o := range out {
		out[i] = r.t.clone(o)
	}
	return out
}

// Names returns the names of all objects, sorted.
func (r Reader[S, T]) Names() []string {
	r.t.s.mu.RLock()
	defer r.t.s.mu.RUnlock()
	return slices.Clone(r.t.visibleNames())
}

// Len returns the number of objects.
func (r Reader[S, T]) Len() int {
	r.t.s.mu.RLock()
	defer r.t.s.mu.RUnlock()
	return len(r.t.visible)
}

// Range calls fn for each object that the transaction sees, by name, until fn
// returns false. The objects are not copies: fn must neither change nor keep them.
func (r Reader[S, T]) Range(tx *Tx, fn func(*apis.Object[S, T]) bool) {
	names := r.t.headNames()
	var created []string
	for i := range tx.writes {
		if w := &tx.writes[i]; w.key.Kind == r.t.kind && w.old == nil {
			created = append(created, w.key.Name)
		}
	}
	if len(created) > 0 {
		names = slices.Concat(names, created)
		slices.Sort(names)
	}
	for _, n := range names {
		if o := r.t.get(tx, n); o != nil && !fn(o) {
			return
		}
	}
}

// Wait blocks until ok reports true for the object; ok gets a copy, or nil
// while the object is absent. It ends early with the cause of ctx, or with the
// store's error when that became fatal.
func (r Reader[S, T]) Wait(ctx context.Context, name string, ok func(*apis.Object[S, T]) bool) error {
	key := r.t.key(name)
	// Subscribe, then look, then sleep: in any other order a change gets lost.
	w := r.t.s.waiters.add(key)
	defer r.t.s.waiters.remove(key, w)
	for {
		if o, _ := r.Get(name); ok(o) {
			return nil
		}
		select {
		case <-w.woken:
		case <-r.t.s.fatal:
			return fmt.Errorf("waiting for %s: %w", key, r.t.s.Err())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", key, context.Cause(ctx))
		}
	}
}
