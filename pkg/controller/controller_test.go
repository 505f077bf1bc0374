// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// script is a reconciler that notes when it is called, and does what do says.
type script struct {
	mu    sync.Mutex
	begin time.Time
	calls []string // "name@seconds"
	do    func(name string, call int) (controller.Result, error)
	count map[string]int
}

func newScript(do func(name string, call int) (controller.Result, error)) *script {
	return &script{begin: time.Now(), do: do, count: map[string]int{}}
}

func (s *script) Reconcile(_ context.Context, name string) (controller.Result, error) {
	s.mu.Lock()
	s.count[name]++
	n := s.count[name]
	s.calls = append(s.calls, fmt.Sprintf("%s@%.1f", name, time.Since(s.begin).Seconds()))
	s.mu.Unlock()
	if s.do == nil {
		return controller.Result{}, nil
	}
	return s.do(name, n)
}

func (s *script) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.calls, " ")
	s.calls = nil
	return out
}

// passes returns how often the name was reconciled.
func (s *script) passes(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[name]
}

// elapse lets simulated time pass.
func elapse(d time.Duration) { <-time.After(d) }

// start runs the controller until the test ends.
func start(t *testing.T, c *controller.Controller) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func settle(t *testing.T, w *controller.Work) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	if err := w.Settle(ctx); err != nil {
		t.Fatalf("%v; open: %v", err, w.Open())
	}
}

func TestEnqueueBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work controller.Work
		settle(t, &work)
		s := newScript(nil)
		c := controller.New(boxKind, s, &work, controller.Options{})
		c.Enqueue("b", "a", "b")
		diff(t, []string{"a", "b"}, c.Pending())
		diff(t, []apis.Key{{Kind: boxKind, Name: "a"}, {Kind: boxKind, Name: "b"}}, work.Open())
		start(t, c)
		settle(t, &work)
		diff(t, "b@0.0 a@0.0", s.take())
		diff(t, 0, len(c.Pending()))
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work controller.Work
		var at []time.Time
		failing := true
		c := controller.New(boxKind, controller.ReconcilerFunc(func(context.Context, string) (controller.Result, error) {
			at = append(at, time.Now())
			if failing && len(at) < 10 {
				return controller.Result{After: time.Nanosecond}, errors.New("not yet")
			}
			return controller.Result{}, nil
		}), &work, controller.Options{MinBackoff: time.Second, MaxBackoff: time.Minute})
		c.Enqueue("a")
		start(t, c)
		settle(t, &work)
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
			want *= time.Second
			if got := at[i+1].Sub(at[i]); got < want*9/10 || got > want*11/10 {
				t.Errorf("retry %d after %v, want %v ± 10 %%", i+1, got, want)
			}
		}
		// Success clears it.
		at = nil
		c.Enqueue("a")
		synctest.Wait()
		elapse(1500 * time.Millisecond)
		synctest.Wait()
		if len(at) != 2 {
			t.Errorf("%d passes", len(at))
		}
	})
}

func TestTerminalErrorsWaitForAWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work controller.Work
		var reports []string
		s := newScript(func(_ string, call int) (controller.Result, error) {
			if call < 3 {
				return controller.Result{After: time.Second}, fmt.Errorf("wrapped: %w", apis.Terminalf(apis.ReasonInvalid, "no use"))
			}
			return controller.Result{}, nil
		})
		c := controller.New(boxKind, s, &work, controller.Options{
			Report: func(name string, err error) { reports = append(reports, name+": "+err.Error()) },
		})
		start(t, c)
		c.Enqueue("a")
		settle(t, &work)
		elapse(time.Hour)
		diff(t, "a@0.0", s.take())
		diff(t, []string{"a: wrapped: no use"}, reports)
		c.Enqueue("a")
		settle(t, &work)
		c.Enqueue("a")
		settle(t, &work)
		diff(t, "a@3600.0 a@3600.0", s.take())
		diff(t, 2, len(reports))
	})
}

func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work controller.Work
		var log strings.Builder
		inner := errors.New("inner")
		var got error
		s := newScript(func(_ string, call int) (controller.Result, error) {
			switch call {
			case 1:
				panic("boom")
			case 2:
				panic(inner)
			}
			return controller.Result{}, nil
		})
		c := controller.New(boxKind, s, &work, controller.Options{
			Report: func(_ string, err error) { got = err; panic("the report, too") },
			Log:    funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{}),
		})
		start(t, c)
		c.Enqueue("a")
		settle(t, &work)
		diff(t, 3, s.passes("a"))
		if !errors.Is(got, inner) {
			t.Error(got)
		}
		for _, want := range []string{"panic: boom", "controller_test.go", `"kind"="box" "name"="a"`, "could not be reported", "the report, too"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%q is not in the log:\n%s", want, &log)
			}
		}
	})
}

func TestPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work controller.Work
		s := newScript(func(_ string, call int) (controller.Result, error) {
			if call < 4 {
				return controller.Result{After: 10 * time.Second}, nil
			}
			return controller.Result{}, nil
		})
		c := controller.New(boxKind, s, &work, controller.Options{})
		start(t, c)
		c.Enqueue("a")
		elapse(4 * time.Second)
		diff(t, []string{"a"}, c.Pending())
		c.Enqueue("a") // runs now, and the poll starts anew
		settle(t, &work)
		diff(t, "a@0.0 a@4.0 a@14.0 a@24.0", s.take())
	})
}

func TestBackgroundPollsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work controller.Work
		s := newScript(func(string, int) (controller.Result, error) {
			return controller.Result{After: 3 * time.Second, Background: true}, nil
		})
		c := controller.New(boxKind, s, &work, controller.Options{})
		stop := start(t, c)
		c.Enqueue("a")
		settle(t, &work)
		diff(t, "a@0.0", s.take())
		diff(t, 0, len(work.Open()))
		elapse(10 * time.Second)
		diff(t, "a@3.0 a@6.0 a@9.0", s.take())
		c.Enqueue("a")
		synctest.Wait()
		settle(t, &work)
		diff(t, "a@10.0", s.take())
		stop()
		settle(t, &work)
	})
}

func TestOneWorkerPerName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work controller.Work
		var mu sync.Mutex
		active, most := map[string]int{}, 0
		c := controller.New(boxKind, controller.ReconcilerFunc(func(_ context.Context, name string) (controller.Result, error) {
			mu.Lock()
			active[name]++
			if active[name] > 1 {
				t.Errorf("%s is worked on twice", name)
			}
			sum := 0
			for _, n := range active {
				sum += n
			}
			most = max(most, sum)
			mu.Unlock()
			elapse(time.Second)
			mu.Lock()
			active[name]--
			mu.Unlock()
			return controller.Result{}, nil
		}), &work, controller.Options{Workers: 3})
		start(t, c)
		begin := time.Now()
		for range 10 {
			c.Enqueue("a", "b", "c", "d", "e", "f")
			elapse(50 * time.Millisecond)
		}
		settle(t, &work)
		diff(t, 3, most)
		// Six names in two rounds; then a, b and c again, for what came while
		// they were at work.
		diff(t, 3*time.Second, time.Since(begin))
	})
}

func TestChangeDuringWorkIsDoneRightAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work controller.Work
		s := newScript(func(_ string, call int) (controller.Result, error) {
			elapse(time.Second)
			return controller.Result{After: time.Hour}, nil
		})
		c := controller.New(boxKind, s, &work, controller.Options{Workers: 2})
		start(t, c)
		c.Enqueue("a")
		elapse(100 * time.Millisecond)
		c.Enqueue("a")
		c.Enqueue("a")
		elapse(time.Minute)
		diff(t, "a@0.0 a@1.0", s.take())
		diff(t, []string{"a"}, c.Pending())
	})
}

// TestSettleCoversChains has one kind make objects of the other: Settle must
// not see the gap between them.
func TestSettleCoversChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		if _, err := w.Attach(&slowDisk{Memory: controller.NewMemory()}); err != nil {
			t.Fatal(err)
		}
		var work controller.Work
		up := controller.New(boxKind, controller.ReconcilerFunc(func(_ context.Context, name string) (controller.Result, error) {
			elapse(time.Second)
			return controller.Result{}, w.Commit(func(tx *tx) error {
				if l, ok := w.lids.Reader().GetIn(tx, name); ok {
					return w.boxes.StatusWriter().Observe(tx, name, func(_ *apis.Meta, st *boxStatus) { st.Phase = l.Status.Phase })
				}
				return w.lids.SpecWriter().Apply(tx, apis.Meta{Name: name, Owner: w.boxes.Reader().Key(name)}, boxSpec{})
			})
		}), &work, controller.Options{Workers: 2})
		down := controller.New(lidKind, controller.ReconcilerFunc(func(_ context.Context, name string) (controller.Result, error) {
			elapse(time.Second)
			return controller.Result{}, w.Commit(func(tx *tx) error {
				return w.lids.StatusWriter().Observe(tx, name, func(_ *apis.Meta, st *boxStatus) { st.Phase = "closed" })
			})
		}), &work, controller.Options{})
		for _, c := range []*controller.Controller{up, down} {
			c.Attach(w.Store)
			start(t, c)
		}
		for i := range 6 {
			w.apply(t, apis.Meta{Name: fmt.Sprint(i)}, boxSpec{})
		}
		settle(t, &work)
		for _, b := range w.boxes.Reader().List() {
			diff(t, "closed", b.Status.Phase)
		}
	})
}

func TestSettleEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work controller.Work
		c := controller.New(boxKind, newScript(nil), &work, controller.Options{})
		c.Enqueue("a")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		if err := work.Settle(ctx); err == nil || !strings.Contains(err.Error(), "enough") {
			t.Error(err)
		}
	})
}

// TestNothingGetsLost hammers a controller from all sides; a lost wake-up
// leaves a name behind its last change.
func TestNothingGetsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var work controller.Work
		c := controller.New(boxKind, controller.ReconcilerFunc(func(_ context.Context, name string) (controller.Result, error) {
			b, ok := w.boxes.Reader().Get(name)
			if !ok {
				return controller.Result{}, nil
			}
			if b.Spec.Size%5 == 3 {
				elapse(time.Second)
			}
			err := w.Commit(func(tx *tx) error {
				return w.boxes.StatusWriter().Observe(tx, name, func(_ *apis.Meta, st *boxStatus) {
					st.Ports = map[string]int{"size": b.Spec.Size}
				})
			})
			if b.Spec.Size%7 == 2 && b.Status.Ports["size"] != b.Spec.Size && err == nil {
				err = errors.New("sometimes")
			}
			return controller.Result{}, err
		}), &work, controller.Options{Workers: 4, MinBackoff: time.Hour, MaxBackoff: time.Hour})
		c.Attach(w.Store)
		start(t, c)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				for round := range 200 {
					name := fmt.Sprint(round * (i + 1) % 10)
					w.apply(t, apis.Meta{Name: name}, boxSpec{Size: round})
					if round%20 == i {
						elapse(100 * time.Millisecond)
					}
				}
			})
		}
		wg.Wait()
		settle(t, &work)
		for _, b := range w.boxes.Reader().List() {
			diff(t, b.Spec.Size, b.Status.Ports["size"])
		}
		diff(t, 10, w.boxes.Reader().Len())
	})
}

// TestIdle shows that nothing ticks while nothing is due: simulated time would
// stand still, and the test deadlock, if a wake-up needed a timer.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(nil)
		c := controller.New(boxKind, s, nil, controller.Options{Workers: 2})
		start(t, c)
		for range 3 {
			synctest.Wait()
			before := time.Now()
			c.Enqueue("a")
			synctest.Wait()
			diff(t, time.Duration(0), time.Since(before))
		}
		diff(t, "a@0.0 a@0.0 a@0.0", s.take())
	})
}

// An earlier retry must move the timer that waits for a later one.
func TestEarlierTimesRearm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(func(name string, call int) (controller.Result, error) {
			if call > 1 {
				return controller.Result{}, nil
			}
			d, err := time.ParseDuration(name)
			return controller.Result{After: d}, err
		})
		var work controller.Work
		c := controller.New(boxKind, s, &work, controller.Options{})
		start(t, c)
		for _, n := range []string{"1h", "1m", "30m", "1s"} {
			c.Enqueue(n)
			synctest.Wait()
		}
		settle(t, &work)
		calls := strings.Fields(s.take())
		diff(t, []string{"1s@1.0", "1m@60.0", "30m@1800.0", "1h@3600.0"}, slices.Clone(calls[4:]))
	})
}
