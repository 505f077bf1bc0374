// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// The kinds of these tests: box is durable, lid is not.
type boxSpec struct {
	Size int               `json:"size"`
	Env  map[string]string `json:"env,omitempty"`
	Tags []string          `json:"tags,omitempty"`
}

type boxStatus struct {
	Phase string         `json:"phase,omitempty"`
	Ports map[string]int `json:"ports,omitempty"`
}

type (
	box    = apis.Object[boxSpec, boxStatus]
	boxes  = controller.Table[boxSpec, boxStatus]
	tx     = controller.Tx
	change = controller.Change
)

const (
	boxKind apis.Kind = "box"
	lidKind apis.Kind = "lid"
)

type world struct {
	*controller.Store
	boxes, lids *boxes
}

func newWorld() world {
	s := controller.NewStore(nil)
	return world{
		Store: s,
		boxes: controller.NewTable[boxSpec, boxStatus](s, boxKind, true),
		lids:  controller.NewTable[boxSpec, boxStatus](s, lidKind, false),
	}
}

// must commits and fails the test on an error.
func (w world) must(t testing.TB, fn func(tx *tx) error) {
	t.Helper()
	if err := w.Commit(fn); err != nil {
		t.Fatal(err)
	}
}

func (w world) apply(t testing.TB, meta apis.Meta, spec boxSpec) {
	t.Helper()
	w.must(t, func(tx *tx) error { return w.boxes.SpecWriter().Apply(tx, meta, spec) })
}

func (w world) observe(t testing.TB, name string, fn func(*apis.Meta, *boxStatus)) {
	t.Helper()
	w.must(t, func(tx *tx) error { return w.boxes.StatusWriter().Observe(tx, name, fn) })
}

func (w world) get(t testing.TB, name string) *box {
	t.Helper()
	b, ok := w.boxes.Reader().Get(name)
	if !ok {
		t.Fatalf("no box %s", name)
	}
	return b
}

// record notes what subscribers are told until read.
type record struct {
	mu   sync.Mutex
	keys []string
}

func watch(t testing.TB, s *controller.Store) *record {
	t.Helper()
	r := &record{}
	t.Cleanup(s.Subscribe(func(k apis.Key) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.keys = append(r.keys, k.String())
	}))
	return r
}

// take returns what was told since the last call, sorted.
func (r *record) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := slices.Sorted(slices.Values(r.keys))
	r.keys = nil
	return out
}

func diff(t testing.TB, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestCreate(t *testing.T) {
	w := newWorld()
	w.apply(t, apis.Meta{
		Name: "a", Owner: apis.Key{Kind: lidKind, Name: "l"}, Finalizers: []string{"f"},
		Labels: map[string]string{"x": "y"}, Generation: 7, Revision: 9, Holds: []string{"h"}, Deleting: true,
	}, boxSpec{Size: 1})
	diff(t, &box{
		Meta: apis.Meta{
			Name: "a", Owner: apis.Key{Kind: lidKind, Name: "l"}, Finalizers: []string{"f"},
			Labels: map[string]string{"x": "y"}, Generation: 1, Revision: 1,
		},
		Spec: boxSpec{Size: 1},
	}, w.get(t, "a"))
	diff(t, apis.Key{Kind: boxKind, Name: "zz"}, w.boxes.Reader().Key("zz"))
	diff(t, boxKind, w.boxes.Kind())
}

func TestApplyKeepsWhatIsNotItsOwn(t *testing.T) {
	w := newWorld()
	owner := apis.Key{Kind: lidKind, Name: "l"}
	w.apply(t, apis.Meta{Name: "a", Owner: owner, Finalizers: []string{"f"}, Labels: map[string]string{"x": "y"}}, boxSpec{Size: 1})
	w.observe(t, "a", func(_ *apis.Meta, st *boxStatus) { st.Phase = "seen" })

	w.apply(t, apis.Meta{Name: "a", Finalizers: []string{"other"}}, boxSpec{Size: 2})
	b := w.get(t, "a")
	diff(t, apis.Meta{
		Name: "a", Owner: owner, Finalizers: []string{"f"}, Labels: map[string]string{"x": "y"}, Generation: 2, Revision: 3,
	}, b.Meta)
	diff(t, "seen", b.Status.Phase)

	w.apply(t, apis.Meta{Name: "a", Owner: apis.Key{Kind: lidKind, Name: "m"}, Labels: map[string]string{}}, boxSpec{Size: 2})
	b = w.get(t, "a")
	diff(t, int64(2), b.Generation)
	diff(t, "m", b.Owner.Name)
	diff(t, 0, len(b.Labels))
}

func TestGenerationIsOfTheWholeCommit(t *testing.T) {
	w := newWorld()
	w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: 1})
	sizes := func(sizes ...int) {
		w.must(t, func(tx *tx) error {
			for _, n := range sizes {
				if err := w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: "a"}, boxSpec{Size: n}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	sizes(2, 3)
	diff(t, int64(2), w.get(t, "a").Generation)
	told := watch(t, w.Store)
	sizes(4, 3)
	diff(t, int64(2), w.get(t, "a").Generation)
	diff(t, []string(nil), told.take())
}

func TestNamesAreBounded(t *testing.T) {
	w := newWorld()
	for _, n := range []string{"", string(make([]byte, 5000))} {
		err := w.Commit(func(tx *tx) error { return w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: n}, boxSpec{}) })
		if !errors.Is(err, apis.ErrInvalid) {
			t.Errorf("name of %d bytes: %v", len(n), err)
		}
	}
}

func TestCommitIsAllOrNothing(t *testing.T) {
	w := newWorld()
	w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: 1})
	told := watch(t, w.Store)
	no := errors.New("no")
	err := w.Commit(func(tx *tx) error {
		if err := w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: "b"}, boxSpec{}); err != nil {
			return err
		}
		w.boxes.Deleter().Delete(tx, "a", "r", "m")
		return no
	})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	diff(t, []apis.Key{{Kind: boxKind, Name: "a"}}, w.Keys())
	diff(t, []string(nil), told.take())
	diff(t, uint64(1), w.get(t, "a").Revision)
}

func TestPanicInCommitChangesNothing(t *testing.T) {
	w := newWorld()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = w.Commit(func(tx *tx) error {
			_ = w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: "b"}, boxSpec{})
			panic("boom")
		})
	}()
	w.apply(t, apis.Meta{Name: "a"}, boxSpec{})
	diff(t, []string{"a"}, w.boxes.Reader().Names())
}

func TestNothingIsShared(t *testing.T) {
	w := newWorld()
	r := w.boxes.Reader()
	spec := boxSpec{Env: map[string]string{"k": "v"}, Tags: []string{"t"}}
	meta := apis.Meta{Name: "a", Finalizers: []string{"f"}, Labels: map[string]string{"l": "m"}}
	ports := map[string]int{"ssh": 22}
	want := func() *box {
		return &box{
			Meta:   apis.Meta{Name: "a", Finalizers: []string{"f"}, Labels: map[string]string{"l": "m"}, Generation: 1, Revision: 2},
			Spec:   boxSpec{Env: map[string]string{"k": "v"}, Tags: []string{"t"}},
			Status: boxStatus{Ports: map[string]int{"ssh": 22}},
		}
	}
	w.apply(t, meta, spec)
	w.observe(t, "a", func(_ *apis.Meta, st *boxStatus) { st.Ports = ports })
	spoil := func(b *box) {
		b.Spec.Env["k"], b.Spec.Tags[0], b.Finalizers[0], b.Labels["l"], b.Status.Ports["ssh"] = "!", "!", "!", "!", 0
	}
	spoil(&box{Meta: meta, Spec: spec, Status: boxStatus{Ports: ports}})
	diff(t, want(), w.get(t, "a"))
	spoil(w.get(t, "a"))
	diff(t, want(), w.get(t, "a"))
	spoil(r.List()[0])
	diff(t, want(), w.get(t, "a"))
	r.Names()[0] = "!"
	diff(t, []string{"a"}, r.Names())
	w.must(t, func(tx *tx) error {
		b, _ := r.GetIn(tx, "a")
		spoil(b)
		return nil
	})
	diff(t, want(), w.get(t, "a"))
	if err := r.Wait(t.Context(), "a", func(b *box) bool { spoil(b); return true }); err != nil {
		t.Fatal(err)
	}
	diff(t, want(), w.get(t, "a"))

	// A failed change of the status must not shine through either.
	_ = w.Commit(func(tx *tx) error {
		_ = w.boxes.StatusWriter().Observe(tx, "a", func(m *apis.Meta, st *boxStatus) {
			st.Ports["ssh"], m.Finalizers[0], m.Labels["l"] = 0, "!", "!"
		})
		return errors.New("no")
	})
	diff(t, want(), w.get(t, "a"))
}

func TestNoChangeIsNoWrite(t *testing.T) {
	w := newWorld()
	disk := &countingDisk{Memory: controller.NewMemory()}
	if _, err := w.Attach(disk); err != nil {
		t.Fatal(err)
	}
	spec := boxSpec{Env: map[string]string{"k": "v"}}
	w.apply(t, apis.Meta{Name: "a", Finalizers: []string{"f"}}, spec)
	w.observe(t, "a", func(_ *apis.Meta, st *boxStatus) { st.Phase = "up" })
	w.must(t, func(tx *tx) error { return w.boxes.Holder().Hold(tx, "a", "u") })
	w.must(t, func(tx *tx) error { w.boxes.Deleter().Delete(tx, "a", "first", "one"); return nil })
	told, saves, rev := watch(t, w.Store), disk.saves, w.get(t, "a").Revision

	w.observe(t, "a", func(_ *apis.Meta, st *boxStatus) { st.Phase = "up" })
	w.observe(t, "a", func(m *apis.Meta, _ *boxStatus) {
		m.Labels = map[string]string{"not": "mine"}
		m.Generation++
		m.Deleting = false
	})
	w.must(t, func(tx *tx) error { return w.boxes.Holder().Hold(tx, "a", "u") })
	w.must(t, func(tx *tx) error {
		w.boxes.Holder().Release(tx, "a", "nobody")
		w.boxes.Holder().Release(tx, "absent", "u")
		w.boxes.Deleter().Delete(tx, "a", "second", "two")
		w.boxes.SpecWriter().Delete(tx, "absent", "r", "m")
		return nil
	})
	w.must(t, func(tx *tx) error { // there and back
		if err := w.boxes.Holder().Hold(tx, "a", "u"); err != nil {
			return err
		}
		w.boxes.Holder().Release(tx, "a", "u")
		if err := w.boxes.StatusWriter().Observe(tx, "a", func(_ *apis.Meta, st *boxStatus) { st.Phase = "down" }); err != nil {
			return err
		}
		return w.boxes.StatusWriter().Observe(tx, "a", func(_ *apis.Meta, st *boxStatus) { st.Phase = "up" })
	})
	b := w.get(t, "a")
	if len(b.Holds) != 0 {
		t.Errorf("released, but held by %v", b.Holds)
	}
	diff(t, []string{"box/a"}, told.take()) // the release
	diff(t, rev+1, b.Revision)
	diff(t, saves+1, disk.saves)
	diff(t, "first", b.DeleteReason)
	diff(t, "one", b.DeleteMessage)
}

func TestObserveWritesStatusAndFinalizersOnly(t *testing.T) {
	w := newWorld()
	w.apply(t, apis.Meta{Name: "a", Finalizers: []string{"f"}, Labels: map[string]string{"l": "m"}}, boxSpec{Size: 1})
	before := w.get(t, "a")
	w.observe(t, "a", func(m *apis.Meta, st *boxStatus) {
		*m = apis.Meta{Name: "b", Owner: apis.Key{Kind: lidKind, Name: "x"}, Finalizers: []string{"f", "g"}, Holds: []string{"h"}, Deleting: true}
		st.Phase = "up"
	})
	want := *before
	want.Revision, want.Finalizers, want.Status.Phase = 2, []string{"f", "g"}, "up"
	diff(t, &want, w.get(t, "a"))
	err := w.Commit(func(tx *tx) error {
		return w.boxes.StatusWriter().Observe(tx, "absent", func(*apis.Meta, *boxStatus) { t.Error("called for an absent object") })
	})
	if !errors.Is(err, apis.ErrNotFound) {
		t.Error(err)
	}
}

func TestOwnersAreTold(t *testing.T) {
	w := newWorld()
	told := watch(t, w.Store)
	w.apply(t, apis.Meta{Name: "a", Owner: apis.Key{Kind: lidKind, Name: "old"}}, boxSpec{})
	diff(t, []string{"box/a", "lid/old"}, told.take())
	w.apply(t, apis.Meta{Name: "a", Owner: apis.Key{Kind: lidKind, Name: "new"}}, boxSpec{})
	diff(t, []string{"box/a", "lid/new", "lid/old"}, told.take())
	w.observe(t, "a", func(_ *apis.Meta, st *boxStatus) { st.Phase = "x" })
	diff(t, []string{"box/a", "lid/new"}, told.take())
	w.must(t, func(tx *tx) error { // many parts of one owner: told once
		for i := range 50 {
			if err := w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: fmt.Sprint(i), Owner: apis.Key{Kind: lidKind, Name: "new"}}, boxSpec{}); err != nil {
				return err
			}
		}
		return nil
	})
	diff(t, 51, len(told.take()))
	w.must(t, func(tx *tx) error { w.boxes.Deleter().Delete(tx, "a", "r", "m"); return nil })
	diff(t, []string{"box/a", "lid/new"}, told.take())
}

func TestHoldersAreTold(t *testing.T) {
	w := newWorld()
	w.apply(t, apis.Meta{Name: "a"}, boxSpec{})
	told := watch(t, w.Store)
	w.must(t, func(tx *tx) error {
		return errors.Join(w.boxes.Holder().Hold(tx, "a", "lid/l"), w.boxes.Holder().Hold(tx, "a", "just a word"))
	})
	diff(t, []string{"box/a", "lid/l"}, told.take())
	w.observe(t, "a", func(_ *apis.Meta, st *boxStatus) { st.Phase = "up" })
	diff(t, []string{"box/a", "lid/l"}, told.take())
	w.must(t, func(tx *tx) error { w.boxes.Holder().Release(tx, "a", "lid/l"); return nil })
	diff(t, []string{"box/a", "lid/l"}, told.take())
	w.observe(t, "a", func(_ *apis.Meta, st *boxStatus) { st.Phase = "down" })
	diff(t, []string{"box/a"}, told.take())
}

func TestUnsubscribe(t *testing.T) {
	w := newWorld()
	n := 0
	cancel := w.Subscribe(func(apis.Key) { n++ })
	w.apply(t, apis.Meta{Name: "a"}, boxSpec{})
	cancel()
	cancel()
	w.apply(t, apis.Meta{Name: "b"}, boxSpec{})
	diff(t, 1, n)
}

// TestConcurrentUse is for the race detector, and for lost updates.
func TestConcurrentUse(t *testing.T) {
	w := newWorld()
	if _, err := w.Attach(controller.NewMemory()); err != nil {
		t.Fatal(err)
	}
	w.apply(t, apis.Meta{Name: "n"}, boxSpec{})
	const writers, rounds = 8, 100
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for range rounds {
				if err := w.Commit(func(tx *tx) error {
					b, _ := w.boxes.Reader().GetIn(tx, "n")
					if err := w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: "n"}, boxSpec{Size: b.Spec.Size + 1}); err != nil {
						return err
					}
					return w.lids.SpecWriter().Apply(tx, apis.Meta{Name: fmt.Sprint(i)}, boxSpec{Size: b.Spec.Size})
				}); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range rounds {
				w.boxes.Reader().List()
				w.lids.Reader().Names()
				w.Keys()
			}
		})
	}
	wg.Wait()
	diff(t, writers*rounds, w.get(t, "n").Spec.Size)
}
