// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

func TestTransactionSeesItself(t *testing.T) {
	w := newWorld()
	r := w.boxes.Reader()
	for _, n := range []string{"d", "b", "x"} {
		w.apply(t, apis.Meta{Name: n}, boxSpec{Size: 1})
	}
	w.must(t, func(tx *tx) error {
		for i, n := range []string{"c", "a", "b", "e", "f", "g", "h", "i", "j", "k"} { // enough to need the index
			if err := w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: n}, boxSpec{Size: i + 2}); err != nil {
				return err
			}
		}
		var seen []string
		r.Range(tx, func(b *box) bool { seen = append(seen, fmt.Sprint(b.Name, b.Spec.Size)); return b.Name != "x" })
		diff(t, []string{"a3", "b4", "c2", "d1", "e5", "f6", "g7", "h8", "i9", "j10", "k11", "x1"}, seen)
		seen = nil
		r.Range(tx, func(b *box) bool { seen = append(seen, b.Name); return len(seen) < 2 })
		diff(t, []string{"a", "b"}, seen)
		if _, ok := r.Get("a"); ok {
			t.Error("visible before the commit")
		}
		if b, ok := r.GetIn(tx, "a"); !ok || b.Spec.Size != 3 {
			t.Error("its own change is not visible to the transaction")
		}
		if _, ok := r.GetIn(tx, "zz"); ok {
			t.Error("found what does not exist")
		}
		return nil
	})
	diff(t, 12, r.Len())
	var names []string
	for _, b := range r.List() {
		names = append(names, b.Name)
	}
	diff(t, []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "x"}, names)
}

func TestMisuseIsLoud(t *testing.T) {
	panics := func(what string, fn func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", what)
			}
		}()
		fn()
	}
	w, other := newWorld(), newWorld()
	var kept *tx
	w.must(t, func(tx *tx) error {
		kept = tx
		panics("another store's table", func() { other.boxes.Reader().GetIn(tx, "a") })
		return nil
	})
	panics("a finished transaction", func() { w.boxes.Deleter().Delete(kept, "a", "", "") })
	panics("a second table", func() { controller.NewTable[boxSpec, boxStatus](w.Store, boxKind, true) })
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.boxes.Reader()
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: 1})
		var looks int
		done := make(chan error)
		go func() {
			done <- r.Wait(t.Context(), "a", func(b *box) bool { looks++; return b != nil && b.Spec.Size == 3 })
		}()
		synctest.Wait()
		w.apply(t, apis.Meta{Name: "b"}, boxSpec{}) // wakes nobody
		synctest.Wait()
		diff(t, 1, looks)
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: 2})
		synctest.Wait()
		diff(t, 2, looks)
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: 3})
		diff(t, error(nil), <-done)

		go func() { done <- r.Wait(t.Context(), "a", func(b *box) bool { return b == nil }) }()
		synctest.Wait()
		w.must(t, func(tx *tx) error { w.boxes.Deleter().Delete(tx, "a", "r", "m"); return nil })
		diff(t, error(nil), <-done)

		why := errors.New("the caller went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { done <- r.Wait(ctx, "a", func(b *box) bool { return b != nil }) }()
		synctest.Wait()
		cancel(why)
		if err := <-done; !errors.Is(err, why) || err.Error() != "waiting for box/a: the caller went away" {
			t.Error(err)
		}
	})
}
