// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// attached is a controller on a store, whose failures are written to the
// status with a text that is never the same.
func attached(t *testing.T, w world, s controller.Reconciler, work *controller.Work) {
	t.Helper()
	n := 0
	c := controller.New(boxKind, s, work, controller.Options{
		MinBackoff: time.Second, MaxBackoff: time.Hour,
		Report: func(name string, err error) {
			n++
			_ = w.Commit(func(tx *tx) error {
				return w.boxes.StatusWriter().Observe(tx, name, func(_ *apis.Meta, st *boxStatus) { st.Phase = fmt.Sprint(err, n) })
			})
		},
	})
	c.Attach(w.Store)
	start(t, c)
}

func TestFailuresDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var work controller.Work
		n := 0
		s := newScript(func(name string, call int) (controller.Result, error) {
			_ = w.Commit(func(tx *tx) error {
				return w.boxes.StatusWriter().Observe(tx, name, func(_ *apis.Meta, st *boxStatus) { n++; st.Ports = map[string]int{"n": n} })
			})
			return controller.Result{}, errors.New("never")
		})
		attached(t, w, s, &work)
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{})
		elapse(time.Hour)
		// 1 s doubles to 1 h: some 12 passes.
		if got := s.passes("a"); got < 10 || got > 14 {
			t.Errorf("%d passes in an hour", got)
		}
		s.take()

		// A change of the status from elsewhere brings the next try, not a new count.
		w.observe(t, "a", func(_ *apis.Meta, st *boxStatus) { st.Phase = "touched" })
		synctest.Wait()
		diff(t, "a@3600.0", s.take())
		w.observe(t, "a", func(_ *apis.Meta, st *boxStatus) { st.Phase = "touched again" })
		elapse(2 * time.Second)
		diff(t, "a@3601.0", s.take())
		elapse(10 * time.Minute)
		diff(t, "", s.take())

		// A new spec is a new start.
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: 1})
		elapse(8 * time.Second) // at 0, 1, 3 and 7
		diff(t, 4, len(strings.Fields(s.take())))

		// So is a deletion.
		elapse(time.Hour)
		s.take()
		w.must(t, func(tx *tx) error { w.boxes.Deleter().Delete(tx, "a", "r", "m"); return nil })
		synctest.Wait()
		diff(t, 1, len(strings.Fields(s.take())))
	})
}

func TestTerminalReportDoesNotWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var work controller.Work
		s := newScript(func(string, int) (controller.Result, error) {
			return controller.Result{}, apis.Terminalf(apis.ReasonInvalid, "no")
		})
		attached(t, w, s, &work)
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{})
		settle(t, &work)
		diff(t, "a@0.0", s.take())
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: 1})
		settle(t, &work)
		diff(t, "a@0.0", s.take())
	})
}

func TestNewSpecDuringAFailingPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var work controller.Work
		s := newScript(func(_ string, call int) (controller.Result, error) {
			elapse(time.Second)
			switch call {
			case 1:
				return controller.Result{}, apis.Terminalf(apis.ReasonInvalid, "no")
			case 2:
				return controller.Result{}, errors.New("no")
			}
			return controller.Result{}, nil
		})
		attached(t, w, s, &work)
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{})
		for size := range 2 {
			elapse(500 * time.Millisecond)
			w.apply(t, apis.Meta{Name: "a"}, boxSpec{Size: size + 1})
			elapse(500 * time.Millisecond)
		}
		settle(t, &work)
		diff(t, "a@0.0 a@1.0 a@2.0", s.take())
	})
}

// What a part tells during a failing pass is not lost, but no reason to hurry.
func TestPartChangesDuringAFailingPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var work controller.Work
		s := newScript(func(_ string, call int) (controller.Result, error) {
			elapse(500 * time.Millisecond)
			switch call {
			case 5: // the backoff is 16 s now
				w.must(t, func(tx *tx) error {
					return w.lids.SpecWriter().Apply(tx, apis.Meta{Name: "l", Owner: w.boxes.Reader().Key("a")}, boxSpec{})
				})
			case 6:
				return controller.Result{}, nil
			}
			return controller.Result{}, errors.New("no")
		})
		attached(t, w, s, &work)
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{})
		settle(t, &work)
		calls := strings.Fields(s.take())
		var fifth, sixth float64
		_, _ = fmt.Sscanf(calls[4]+" "+calls[5], "a@%f a@%f", &fifth, &sixth)
		if d := sixth - fifth; d < 1.3 || d > 1.7 {
			t.Errorf("next pass %.1f s after the part changed: %v", d, calls)
		}
	})
}

// A reconciler that changes its own object in every pass is slowed down.
func TestSuccessesDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var work controller.Work
		s := newScript(func(name string, call int) (controller.Result, error) {
			w.observe(t, name, func(_ *apis.Meta, st *boxStatus) { st.Phase = fmt.Sprint(call) })
			return controller.Result{}, nil
		})
		attached(t, w, s, &work)
		w.apply(t, apis.Meta{Name: "a"}, boxSpec{})
		elapse(100 * time.Second)
		if n := s.passes("a"); n < 100 || n > 130 {
			t.Errorf("%d passes in 100 s", n)
		}
	})
}
