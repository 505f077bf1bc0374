// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"

	"agentd/pkg/apis"
)

// Table holds the objects of one kind. Only the part that builds the process
// has whole tables; every other part gets the handles it may use: a [Reader],
// a [SpecWriter], a [StatusWriter], a [Holder] or a [Deleter]. One writer for
// each half of an object is thus a matter of types.
type Table[S, T any] struct {
	s       *Store
	kind    apis.Kind
	durable bool

	ownSpec   func(*S)
	ownStatus func(*T)

	head        map[string]*apis.Object[S, T] // commitMu
	headSorted  []string                      // commitMu; nil: to be sorted
	visible     map[string]*apis.Object[S, T] // mu
	namesSorted atomic.Pointer[[]string]      // written under mu (shared is enough); nil: to be sorted
}

// NewTable makes the table of a kind; durable kinds are kept in the
// checkpoint. All tables are made before the first commit. A second table of
// one kind is a mistake in the program and panics.
func NewTable[S, T any](s *Store, kind apis.Kind, durable bool) *Table[S, T] {
	if _, ok := s.tables[kind]; ok {
		panic(fmt.Sprintf("controller: two tables of kind %q", kind))
	}
	t := &Table[S, T]{
		s: s, kind: kind, durable: durable,
		ownSpec: ownCopy[S](), ownStatus: ownCopy[T](),
		head:    map[string]*apis.Object[S, T]{},
		visible: map[string]*apis.Object[S, T]{},
	}
	s.tables[kind] = t
	return t
}

// Kind returns the kind of the table's objects.
func (t *Table[S, T]) Kind() apis.Kind { return t.kind }

// Reader returns the handle that reads the kind.
func (t *Table[S, T]) Reader() Reader[S, T] { return Reader[S, T]{t} }

// SpecWriter returns the handle that creates objects, changes their specs and deletes them.
func (t *Table[S, T]) SpecWriter() SpecWriter[S, T] { return SpecWriter[S, T]{t} }

// StatusWriter returns the handle that changes statuses and finalizers.
func (t *Table[S, T]) StatusWriter() StatusWriter[S, T] { return StatusWriter[S, T]{t} }

// Holder returns the handle that keeps objects from being torn down.
func (t *Table[S, T]) Holder() Holder[S, T] { return Holder[S, T]{t} }

// Deleter returns the handle that asks for the deletion of objects.
func (t *Table[S, T]) Deleter() Deleter[S, T] { return Deleter[S, T]{t} }

func (t *Table[S, T]) key(name string) apis.Key { return apis.Key{Kind: t.kind, Name: name} }

// get returns what tx sees under the name, or nil. It is not to be modified.
func (t *Table[S, T]) get(tx *Tx, name string) *apis.Object[S, T] {
	if w := tx.find(t.key(name)); w != nil {
		return w.obj.(*apis.Object[S, T]) //nolint:forcetypeassert,errcheck // this table wrote it
	}
	if tx.s != t.s {
		panic("controller: a transaction is used with a table of another store")
	}
	return t.head[name]
}

// put stages a new state of an object. The caller gives obj away.
func (t *Table[S, T]) put(tx *Tx, obj *apis.Object[S, T]) {
	key := t.key(obj.Name)
	if w := tx.find(key); w != nil {
		w.obj, w.meta, w.holdsOnly = obj, &obj.Meta, false
		return
	}
	t.add(tx, write{table: t, key: key, obj: obj, meta: &obj.Meta})
}

// putHolds stages an object of which only the list of holds differs.
func (t *Table[S, T]) putHolds(tx *Tx, obj *apis.Object[S, T]) {
	key := t.key(obj.Name)
	if w := tx.find(key); w != nil {
		w.obj, w.meta = obj, &obj.Meta
		return
	}
	t.add(tx, write{table: t, key: key, obj: obj, meta: &obj.Meta, holdsOnly: true})
}

func (t *Table[S, T]) add(tx *Tx, w write) {
	if old := t.head[w.key.Name]; old != nil {
		w.old, w.oldMeta = old, &old.Meta
	}
	tx.add(w)
}

// clone copies a whole object.
func (t *Table[S, T]) clone(o *apis.Object[S, T]) *apis.Object[S, T] {
	c := *o
	ownMeta(&c.Meta)
	t.ownSpec(&c.Spec)
	t.ownStatus(&c.Status)
	return &c
}

func (t *Table[S, T]) isDurable() bool { return t.durable }

func (t *Table[S, T]) setHead(name string, obj any) {
	if replace(t.head, name, obj) {
		t.headSorted = nil
	}
}

func (t *Table[S, T]) setVisible(name string, obj any) {
	if replace(t.visible, name, obj) {
		t.namesSorted.Store(nil)
	}
}

// replace sets or (obj is nil) removes m[name]; it reports whether the set of names changed.
func replace[S, T any](m map[string]*apis.Object[S, T], name string, obj any) bool {
	n := len(m)
	if obj == nil {
		delete(m, name)
	} else {
		m[name] = obj.(*apis.Object[S, T]) //nolint:forcetypeassert,errcheck // this table wrote it
	}
	return len(m) != n
}

func (t *Table[S, T]) load(name string, data []byte) (*apis.Meta, error) {
	obj := new(apis.Object[S, T])
	if err := json.Unmarshal(data, obj); err != nil {
		return nil, err
	}
	if name == "" || obj.Name != name {
		return nil, fmt.Errorf("it says that its name is %q", obj.Name)
	}
	t.setHead(name, obj)
	t.setVisible(name, obj)
	return &obj.Meta, nil
}

func (t *Table[S, T]) encode(obj any) ([]byte, error) { return json.Marshal(obj) }

func (t *Table[S, T]) equal(a, b any) bool {
	x, y := a.(*apis.Object[S, T]), b.(*apis.Object[S, T]) //nolint:forcetypeassert,errcheck // this table wrote them
	return equalMeta(&x.Meta, &y.Meta) && reflect.DeepEqual(&x.Spec, &y.Spec) && reflect.DeepEqual(&x.Status, &y.Status)
}

// equalMeta compares everything but the revision.
func equalMeta(a, b *apis.Meta) bool {
	return a.Name == b.Name && a.Owner == b.Owner && a.Generation == b.Generation &&
		a.Deleting == b.Deleting && a.DeleteReason == b.DeleteReason && a.DeleteMessage == b.DeleteMessage &&
		slices.Equal(a.Finalizers, b.Finalizers) && slices.Equal(a.Holds, b.Holds) && maps.Equal(a.Labels, b.Labels)
}

func (t *Table[S, T]) visibleLen() int { return len(t.visible) }

func (t *Table[S, T]) visibleNames() []string {
	if p := t.namesSorted.Load(); p != nil {
		return *p
	}
	names := slices.Sorted(maps.Keys(t.visible))
	t.namesSorted.Store(&names) // no writer can be active: mu is held
	return names
}

func (t *Table[S, T]) headNames() []string {
	if t.headSorted == nil {
		t.headSorted = slices.Sorted(maps.Keys(t.head))
	}
	return t.headSorted
}
