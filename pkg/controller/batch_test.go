// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// countingDisk counts its saves.
type countingDisk struct {
	*controller.Memory
	saves int
}

func (d *countingDisk) Save(c []change) error {
	d.saves++
	return d.Memory.Save(c)
}

// slowDisk takes a second for each save, and can be made to fail.
type slowDisk struct {
	*controller.Memory
	mu   sync.Mutex
	log  []string
	fail error
}

func (d *slowDisk) Save(changes []change) error {
	elapse(time.Second)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return d.fail
	}
	line := ""
	for _, c := range changes {
		line += " " + c.Key.Name
	}
	d.log = append(d.log, line)
	return d.Memory.Save(changes)
}

func slowWorld(t *testing.T) (world, *slowDisk) {
	t.Helper()
	w, d := newWorld(), &slowDisk{Memory: controller.NewMemory()}
	if _, err := w.Attach(d); err != nil {
		t.Fatal(err)
	}
	return w, d
}

func TestCommitsShareTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := slowWorld(t)
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { w.apply(t, apis.Meta{Name: "first"}, boxSpec{}) })
		synctest.Wait() // it is being written
		for i := range 8 {
			wg.Go(func() {
				w.apply(t, apis.Meta{Name: fmt.Sprint(i)}, boxSpec{})
				if _, ok := w.boxes.Reader().Get(fmt.Sprint(i)); !ok {
					t.Error("not visible after its commit")
				}
			})
		}
		wg.Wait()
		diff(t, 2*time.Second, time.Since(begin))
		diff(t, 2, len(d.log))
		diff(t, 9, w.boxes.Reader().Len())
	})
}

func TestInvisibleUntilDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := slowWorld(t)
		told := watch(t, w.Store)
		go w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: 1})
		synctest.Wait()
		diff(t, 0, w.boxes.Reader().Len())
		diff(t, 0, len(w.Keys()))
		diff(t, []string(nil), told.take())

		// The next transaction builds upon it, and ends after it even if it
		// changes nothing or nothing durable.
		begin := time.Now()
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: 1})
		diff(t, time.Second, time.Since(begin))
		diff(t, []string{"a"}, w.boxes.Reader().Names())
		diff(t, []string{"box/a"}, told.take())

		go w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: 2})
		synctest.Wait()
		w.must(t, func(tx *tx) error {
			b, _ := w.boxes.Reader().GetIn(tx, "a")
			return w.lids.SpecWriter().Apply(tx, apis.Meta{Name: "l"}, b.Spec)
		})
		l, _ := w.lids.Reader().Get("l")
		diff(t, 2, l.Spec.Size)
		diff(t, 2, w.get(t, "a").Spec.Size)

		begin = time.Now() // nothing durable, nothing under way: no wait
		w.must(t, func(tx *tx) error { return w.lids.SpecWriter().Apply(tx, apis.Meta{Name: "m"}, boxSpec{}) })
		diff(t, time.Duration(0), time.Since(begin))
	})
}

func TestFullDiskIsFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := slowWorld(t)
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: 1})
		select {
		case <-w.Fatal():
			t.Fatal("fatal already")
		default:
		}
		diff(t, error(nil), w.Err())
		told := watch(t, w.Store)
		full := errors.New("no space left on device")
		d.fail = full

		errs := make(chan error, 10)
		commit := func(name string) {
			errs <- w.Commit(func(tx *tx) error { return w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: name}, boxSpec{Size: 2}) })
		}
		go func() {
			errs <- w.boxes.Reader().Wait(t.Context(), "a", func(b *box) bool { return b.Spec.Size == 2 })
		}()
		go commit("a")
		synctest.Wait()
		go commit("b") // in the next batch
		go commit("a") // changes nothing, but read what never came to be
		synctest.Wait()
		<-w.Fatal()
		synctest.Wait()
		commit("c")
		for range 5 {
			if err := <-errs; !errors.Is(err, controller.ErrFatal) || !errors.Is(err, full) {
				t.Error(err)
			}
		}
		if !errors.Is(w.Err(), full) {
			t.Error(w.Err())
		}
		diff(t, []string{"a"}, w.boxes.Reader().Names())
		diff(t, 1, w.get(t, "a").Spec.Size)
		diff(t, []string(nil), told.take())
	})
}

func TestAttach(t *testing.T) {
	w := newWorld()
	disk := controller.NewMemory()
	if _, err := w.Attach(disk); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Attach(disk); err == nil {
		t.Error("attached twice")
	}
	w.apply(t, apis.Meta{Name: "a", Owner: apis.Key{Kind: lidKind, Name: "l"}, Finalizers: []string{"f"}, Labels: map[string]string{"x": "y"}},
		boxSpec{Env: map[string]string{"<k>": "\x00&"}})
	w.observe(t, "a", func(_ *apis.Meta, st *boxStatus) { st.Phase = "up" })
	w.apply(t, apis.Meta{Name: "b"}, boxSpec{})
	w.apply(t, apis.Meta{Name: "c"}, boxSpec{})
	w.must(t, func(tx *tx) error { w.boxes.Deleter().Delete(tx, "b", "r", "m"); return nil })
	w.must(t, func(tx *tx) error { return w.lids.SpecWriter().Apply(tx, apis.Meta{Name: "l"}, boxSpec{}) })

	junk := disk.Clone()
	if err := junk.Save([]change{
		{Key: apis.Key{Kind: "hat", Name: "h"}, Data: []byte(`{}`)},
		{Key: apis.Key{Kind: lidKind, Name: "l"}, Data: []byte(`{}`)},
		{Key: apis.Key{Kind: boxKind, Name: "torn"}, Data: []byte(`{"metadata":{"na`)},
		{Key: apis.Key{Kind: boxKind, Name: "other"}, Data: []byte(`{"metadata":{"name":"a"}}`)},
		{Key: apis.Key{Kind: boxKind, Name: "typed"}, Data: []byte(`{"metadata":{"name":"typed"},"spec":{"size":"big"}}`)},
		{Key: apis.Key{Kind: boxKind, Name: "newer"}, Data: []byte(`{"metadata":{"name":"newer","generation":3,"revision":77},"spec":{"size":5,"unknown":[1]}}`)},
	}); err != nil {
		t.Fatal(err)
	}
	again := newWorld()
	told := watch(t, again.Store)
	report, err := again.Attach(junk)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, 3, report.Objects)
	diff(t, []string{
		`box/other: it says that its name is "a"`,
		`box/torn: unexpected end of JSON input`,
		`box/typed: json: cannot unmarshal string into Go struct field boxSpec.spec.size of type int`,
		`hat/h: unknown kind`,
		`lid/l: unknown kind`,
	}, report.Skipped)
	diff(t, []string{"a", "c", "newer"}, again.boxes.Reader().Names())
	diff(t, w.get(t, "a"), again.get(t, "a"))
	diff(t, 5, again.get(t, "newer").Spec.Size)
	diff(t, []string(nil), told.take())
	again.apply(t, apis.Meta{Name: "new"}, boxSpec{})
	diff(t, uint64(78), again.get(t, "new").Revision)
	diff(t, 0, again.lids.Reader().Len())

	late := newWorld()
	late.apply(t, apis.Meta{Name: "a"}, boxSpec{})
	if _, err := late.Attach(controller.NewMemory()); err == nil {
		t.Error("attached after a durable object was made")
	}
	broken := errors.New("broken")
	if _, err := newWorld().Attach(brokenDisk{Memory: disk, err: broken}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type brokenDisk struct {
	*controller.Memory
	err error
}

func (d brokenDisk) Load(func(apis.Key, []byte) error) error { return d.err }

// A value that JSON cannot hold must not make the store fatal.
func TestUnencodableIsRefused(t *testing.T) {
	s := controller.NewStore(nil)
	type spec struct{ F func() }
	table := controller.NewTable[spec, struct{}](s, "odd", true)
	if _, err := s.Attach(controller.NewMemory()); err != nil {
		t.Fatal(err)
	}
	err := s.Commit(func(tx *tx) error { return table.SpecWriter().Apply(tx, apis.Meta{Name: "a"}, spec{}) })
	if err == nil || s.Err() != nil {
		t.Errorf("commit: %v, store: %v", err, s.Err())
	}
	diff(t, 0, len(s.Keys()))
}
