// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// model is what the store should be: a map, and rules written down plainly.
type model map[string]box

func (m model) clone() model { return apis.DeepCopy(m) }

// finish removes what is deleted and compares with the state before: the
// generation counts changed specs, once for each commit.
func (m model) finish(before model) (changed []string) {
	for n, b := range m {
		if b.Deleting && len(b.Finalizers) == 0 {
			delete(m, n)
			continue
		}
		old, existed := before[n]
		switch {
		case !existed:
			b.Generation = 1
		case !cmp.Equal(old.Spec, b.Spec):
			b.Generation = old.Generation + 1
		}
		m[n] = b
		if !existed || !cmp.Equal(old, b) {
			changed = append(changed, n)
		}
	}
	for n := range before {
		if _, ok := m[n]; !ok {
			changed = append(changed, n)
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed)
}

// TestModel runs random transactions, some of which fail, against the store
// and the model, and reopens the store now and then.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		disk := controller.NewMemory()
		w := newWorld()
		if _, err := w.Attach(disk); err != nil {
			t.Fatal(err)
		}
		var told []string
		w.Subscribe(func(k apis.Key) {
			if k.Kind == boxKind {
				told = append(told, k.Name)
			}
		})
		names := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"})
		words := rapid.SampledFrom([]string{"x", "y", "z"})
		stop := errors.New("stop")
		state := model{}
		for range rapid.IntRange(1, 30).Draw(t, "commits") {
			next := state.clone()
			fail := rapid.IntRange(0, 4).Draw(t, "fail") == 0
			told = nil
			err := w.Commit(func(tx *tx) error {
				for range rapid.IntRange(0, 15).Draw(t, "steps") {
					step(t, w, tx, next, names, words)
				}
				checkInside(t, w, tx, next)
				if fail {
					return stop
				}
				return nil
			})
			if fail != errors.Is(err, stop) || !fail && err != nil {
				t.Fatalf("fail=%v: %v", fail, err)
			}
			if fail {
				next = state.clone()
			}
			changed := next.finish(state)
			state = next
			slices.Sort(told)
			if d := cmp.Diff(changed, slices.Compact(told)); d != "" {
				t.Fatalf("notifications, -want +got:\n%s", d)
			}
			checkOutside(t, w, state)
			if rapid.IntRange(0, 5).Draw(t, "reopen") == 0 {
				again := newWorld()
				if _, err := again.Attach(disk.Clone()); err != nil {
					t.Fatal(err)
				}
				checkOutside(t, again, state)
			}
		}
	})
}

// step does one thing to the store and to the model.
func step(t *rapid.T, w world, tx *tx, m model, names, words *rapid.Generator[string]) {
	name := names.Draw(t, "name")
	b, exists := m[name]
	var err, want error
	switch op := rapid.SampledFrom([]string{"apply", "status", "finalizers", "delete", "hold", "release"}).Draw(t, "op"); op {
	case "apply":
		meta := apis.Meta{Name: name}
		spec := boxSpec{Size: rapid.IntRange(0, 2).Draw(t, "size")}
		if rapid.Bool().Draw(t, "env") {
			spec.Env = map[string]string{words.Draw(t, "k"): words.Draw(t, "v")}
		}
		if rapid.Bool().Draw(t, "meta") {
			meta.Labels = map[string]string{words.Draw(t, "l"): "1"}
			meta.Finalizers = []string{words.Draw(t, "f")}
		}
		err = w.boxes.SpecWriter().Apply(tx, meta, spec)
		switch {
		case exists && b.Deleting:
			want = controller.ErrDeleting
		case exists:
			b.Spec = spec
			if meta.Labels != nil {
				b.Labels = meta.Labels
			}
		default:
			b = box{Meta: meta, Spec: spec}
		}
	case "status":
		phase := words.Draw(t, "phase")
		err = w.boxes.StatusWriter().Observe(tx, name, func(_ *apis.Meta, st *boxStatus) { st.Phase = phase })
		b.Status.Phase = phase
		if !exists {
			want = apis.ErrNotFound
		}
	case "finalizers":
		f := rapid.SliceOfN(words, 0, 2).Draw(t, "finalizers")
		err = w.boxes.StatusWriter().Observe(tx, name, func(m *apis.Meta, _ *boxStatus) { m.Finalizers = f })
		if b.Finalizers = f; len(f) == 0 {
			b.Finalizers = nil
		}
		if !exists {
			want = apis.ErrNotFound
		}
	case "delete":
		reason := words.Draw(t, "reason")
		w.boxes.Deleter().Delete(tx, name, reason, "")
		if exists && !b.Deleting {
			b.Deleting, b.DeleteReason = true, reason
		}
	case "hold":
		user := words.Draw(t, "user")
		err = w.boxes.Holder().Hold(tx, name, user)
		switch {
		case !exists:
			want = apis.ErrNotFound
		case slices.Contains(b.Holds, user):
		case b.Deleting:
			want = controller.ErrDeleting
		default:
			b.Holds = append(slices.Clone(b.Holds), user)
			slices.Sort(b.Holds)
		}
	case "release":
		user := words.Draw(t, "user")
		w.boxes.Holder().Release(tx, name, user)
		b.Holds = slices.DeleteFunc(slices.Clone(b.Holds), func(s string) bool { return s == user })
		if len(b.Holds) == 0 {
			b.Holds = nil
		}
	}
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", name, err, want)
	}
	if want == nil && b.Name != "" {
		m[name] = b
	}
}

// bare takes away what the model does not know before the commit's end.
func bare(b box) box {
	b.Revision, b.Generation = 0, 0
	return b
}

func checkInside(t *rapid.T, w world, tx *tx, m model) {
	got := map[string]box{}
	w.boxes.Reader().Range(tx, func(b *box) bool { got[b.Name] = bare(*b); return true })
	want := map[string]box{}
	for n, b := range m {
		want[n] = bare(b)
		if b, ok := w.boxes.Reader().GetIn(tx, n); !ok || !cmp.Equal(bare(*b), want[n]) {
			t.Fatalf("GetIn %s: %v", n, b)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("inside, -want +got:\n%s", d)
	}
}

func checkOutside(t *rapid.T, w world, m model) {
	r := w.boxes.Reader()
	got := map[string]box{}
	var order []string
	for _, b := range r.List() {
		b.Revision = 0
		got[b.Name] = *b
		order = append(order, b.Name)
	}
	if d := cmp.Diff(map[string]box(m), got); d != "" {
		t.Fatalf("outside, -want +got:\n%s", d)
	}
	want := slices.Sorted(maps.Keys(m))
	if !slices.Equal(order, want) || !slices.Equal(r.Names(), want) || r.Len() != len(want) {
		t.Fatalf("names %v, list %v, want %v", r.Names(), order, want)
	}
}
