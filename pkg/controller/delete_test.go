// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"errors"
	"testing"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

func TestDeletion(t *testing.T) {
	w := newWorld()
	del := func(name string) {
		w.must(t, func(tx *tx) error { w.boxes.SpecWriter().Delete(tx, name, "r", "m"); return nil })
	}
	w.apply(t, apis.Meta{Name: "plain"}, boxSpec{})
	w.apply(t, apis.Meta{Name: "two", Finalizers: []string{"f", "g"}}, boxSpec{})
	told := watch(t, w.Store)
	del("plain")
	del("two")
	diff(t, []string{"two"}, w.boxes.Reader().Names())
	diff(t, []string{"box/plain", "box/two"}, told.take())

	err := w.Commit(func(tx *tx) error { return w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: "two"}, boxSpec{}) })
	if !errors.Is(err, controller.ErrDeleting) || !errors.Is(err, apis.ErrConflict) {
		t.Errorf("apply while deleting: %v", err)
	}
	if err := w.Commit(func(tx *tx) error { return w.boxes.Holder().Hold(tx, "two", "u") }); !errors.Is(err, controller.ErrDeleting) {
		t.Errorf("hold while deleting: %v", err)
	}
	w.observe(t, "two", func(m *apis.Meta, _ *boxStatus) { m.DropFinalizer("f") })
	diff(t, []string{"g"}, w.get(t, "two").Finalizers)
	w.observe(t, "two", func(m *apis.Meta, st *boxStatus) { m.DropFinalizer("g"); st.Phase = "gone" })
	diff(t, 0, w.boxes.Reader().Len())

	// The name is free again, and a new object starts anew.
	w.apply(t, apis.Meta{Name: "two"}, boxSpec{})
	diff(t, int64(1), w.get(t, "two").Generation)
}

func TestRemovalComesAtTheEndOfTheCommit(t *testing.T) {
	w := newWorld()
	w.must(t, func(tx *tx) error {
		if err := w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: "brief"}, boxSpec{}); err != nil {
			return err
		}
		w.boxes.Deleter().Delete(tx, "brief", "r", "m")
		if _, ok := w.boxes.Reader().GetIn(tx, "brief"); !ok {
			t.Error("gone before the end")
		}
		return nil
	})
	diff(t, 0, len(w.Keys()))
}

func TestHolds(t *testing.T) {
	w := newWorld()
	h := w.boxes.Holder()
	w.apply(t, apis.Meta{Name: "a", Finalizers: []string{"f"}}, boxSpec{})
	for _, u := range []string{"kernel/b", "kernel/a", "kernel/b", "kernel/c"} {
		w.must(t, func(tx *tx) error { return h.Hold(tx, "a", u) })
	}
	diff(t, []string{"kernel/a", "kernel/b", "kernel/c"}, w.get(t, "a").Holds)
	w.must(t, func(tx *tx) error { w.boxes.Deleter().Delete(tx, "a", "r", "m"); return h.Hold(tx, "a", "kernel/b") })
	w.must(t, func(tx *tx) error { h.Release(tx, "a", "kernel/b"); return nil })
	diff(t, []string{"kernel/a", "kernel/c"}, w.get(t, "a").Holds)
	if err := w.Commit(func(tx *tx) error { return h.Hold(tx, "absent", "u") }); !errors.Is(err, apis.ErrNotFound) {
		t.Error(err)
	}
	// Holds are for the reconciler; the store goes by finalizers alone.
	w.observe(t, "a", func(m *apis.Meta, _ *boxStatus) { m.DropFinalizer("f") })
	diff(t, 0, w.boxes.Reader().Len())
}
