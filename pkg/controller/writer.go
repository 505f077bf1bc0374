// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"agentd/pkg/apis"
)

// maxName is the longest name in bytes; the checkpoint could take a little more.
const maxName = 4096

// SpecWriter creates objects, changes their specs and deletes them.
type SpecWriter[S, T any] struct{ t *Table[S, T] }

// Apply creates the object (meta gives its name, owner, finalizers and labels)
// or replaces its spec. The generation grows only if the spec differs from the
// one before the transaction. An existing object keeps its owner and labels
// unless meta gives new ones, and always its finalizers. An object that is
// being deleted is refused with [ErrDeleting].
func (w SpecWriter[S, T]) Apply(tx *Tx, meta apis.Meta, spec S) error {
	if meta.Name == "" || len(meta.Name) > maxName {
		return fmt.Errorf("a %s needs a name of 1 to %d bytes, this one has %d: %w", w.t.kind, maxName, len(meta.Name), apis.ErrInvalid)
	}
	cur := w.t.get(tx, meta.Name)
	if cur == nil {
		next := &apis.Object[S, T]{
			Meta: apis.Meta{
				Name: meta.Name, Owner: meta.Owner, Generation: 1,
				Finalizers: cloneList(meta.Finalizers), Labels: cloneLabels(meta.Labels),
			},
			Spec: spec,
		}
		w.t.ownSpec(&next.Spec)
		w.t.put(tx, next)
		return nil
	}
	if cur.Deleting {
		return fmt.Errorf("%s is %w", w.t.key(meta.Name), ErrDeleting)
	}
	next := *cur
	if meta.Owner != (apis.Key{}) {
		next.Owner = meta.Owner
	}
	if meta.Labels != nil {
		next.Labels = cloneLabels(meta.Labels)
	}
	base := w.t.head[meta.Name]
	if base != nil && reflect.DeepEqual(&spec, &base.Spec) {
		next.Spec, next.Generation = base.Spec, base.Generation // shared: nobody changes it
	} else {
		next.Spec = spec
		w.t.ownSpec(&next.Spec)
		if base != nil {
			next.Generation = base.Generation + 1
		}
	}
	w.t.put(tx, &next)
	return nil
}

// Delete asks for the object's deletion; the first reason wins. An absent
// object is success. An object without finalizers goes at once, any other one
// when its last finalizer is dropped.
func (w SpecWriter[S, T]) Delete(tx *Tx, name, reason, message string) {
	w.t.delete(tx, name, reason, message)
}

// Deleter asks for the deletion of objects, and may do nothing else to them.
type Deleter[S, T any] struct{ t *Table[S, T] }

// Delete does what [SpecWriter.Delete] does.
func (w Deleter[S, T]) Delete(tx *Tx, name, reason, message string) {
	w.t.delete(tx, name, reason, message)
}

func (t *Table[S, T]) delete(tx *Tx, name, reason, message string) {
	cur := t.get(tx, name)
	if cur == nil || cur.Deleting {
		return
	}
	next := *cur
	next.Deleting, next.DeleteReason, next.DeleteMessage = true, reason, message
	t.put(tx, &next)
}

// StatusWriter changes statuses and finalizers.
type StatusWriter[S, T any] struct{ t *Table[S, T] }

// Observe lets fn change the status and the finalizers of an object; whatever
// else it changes in m is undone. fn works on copies. An absent object is an
// [apis.ErrNotFound].
func (w StatusWriter[S, T]) Observe(tx *Tx, name string, fn func(m *apis.Meta, st *T)) error {
	cur := w.t.get(tx, name)
	if cur == nil {
		return fmt.Errorf("%s: %w", w.t.key(name), apis.ErrNotFound)
	}
	m, st := cur.Meta, cur.Status
	ownMeta(&m)
	w.t.ownStatus(&st)
	fn(&m, &st)
	sameStatus := reflect.DeepEqual(&st, &cur.Status)
	if sameStatus && slices.Equal(m.Finalizers, cur.Finalizers) {
		return nil
	}
	next := *cur // the spec is shared
	next.Finalizers = cloneList(m.Finalizers)
	if !sameStatus {
		next.Status = st
		w.t.ownStatus(&next.Status) // fn may have put memory of its own in
	}
	w.t.put(tx, &next)
	return nil
}

// Holder notes who uses an object. The store itself does not look at holds:
// whoever has the object's finalizer waits until there are none.
type Holder[S, T any] struct{ t *Table[S, T] }

// Hold adds user to the object's holds. An absent object is an
// [apis.ErrNotFound]; one that is being deleted takes no new users and answers
// with [ErrDeleting].
func (w Holder[S, T]) Hold(tx *Tx, name, user string) error {
	cur := w.t.get(tx, name)
	if cur == nil {
		return fmt.Errorf("%s: %w", w.t.key(name), apis.ErrNotFound)
	}
	i, held := slices.BinarySearch(cur.Holds, user)
	if held {
		return nil
	}
	if cur.Deleting {
		return fmt.Errorf("%s is %w", w.t.key(name), ErrDeleting)
	}
	next := *cur
	next.Holds = slices.Insert(slices.Clone(cur.Holds), i, user)
	w.t.putHolds(tx, &next)
	return nil
}

// Release takes user from the object's holds; if it is not there, or there is
// no such object, that is success.
func (w Holder[S, T]) Release(tx *Tx, name, user string) {
	cur := w.t.get(tx, name)
	if cur == nil {
		return
	}
	i, held := slices.BinarySearch(cur.Holds, user)
	if !held {
		return
	}
	next := *cur
	next.Holds = cloneList(slices.Delete(slices.Clone(cur.Holds), i, i+1))
	w.t.putHolds(tx, &next)
}

// ownMeta makes m a deep copy of what was assigned to it.
func ownMeta(m *apis.Meta) {
	m.Finalizers, m.Holds, m.Labels = slices.Clone(m.Finalizers), slices.Clone(m.Holds), maps.Clone(m.Labels)
}

// cloneList copies a list; an empty one becomes nil, as it does on its way through the checkpoint.
func cloneList(l []string) []string {
	if len(l) == 0 {
		return nil
	}
	return slices.Clone(l)
}

func cloneLabels(l map[string]string) map[string]string {
	if len(l) == 0 {
		return nil
	}
	return maps.Clone(l)
}
