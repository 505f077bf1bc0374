// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/pkg/runtime"
)

// journal is what happened, with the seconds since the start.
type journal struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%5.1f ", time.Since(j.start).Seconds())+fmt.Sprintf(format, args...))
}

func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// node is a scripted engine: the test decides what each subscription and each
// listing does.
type node struct {
	runtime.Containers
	*journal
	list  func(ctx context.Context, n int) error
	watch func(ctx context.Context, n int, ready func(), fn func(runtime.Event)) error
	mu2   sync.Mutex
	lists int
	subs  int
}

func (n *node) List(ctx context.Context) ([]runtime.ContainerState, error) {
	n.mu2.Lock()
	n.lists++
	count := n.lists
	n.mu2.Unlock()
	n.add("list")
	if n.list != nil {
		if err := n.list(ctx, count); err != nil {
			return nil, err
		}
	}
	return []runtime.ContainerState{{ID: fmt.Sprint(count)}}, nil
}

func (n *node) Watch(ctx context.Context, since time.Time, ready func(), fn func(runtime.Event)) error {
	n.mu2.Lock()
	n.subs++
	count := n.subs
	n.mu2.Unlock()
	n.add("watch since %.1f", since.Sub(n.start).Seconds())
	if n.watch == nil {
		ready()
		<-ctx.Done()
		return ctx.Err()
	}
	return n.watch(ctx, count, ready, fn)
}

// observe runs an observer over the node for a while and returns the journal.
func observe(t *testing.T, n *node, change func(*runtime.Observer), during func(o *runtime.Observer)) []string {
	t.Helper()
	n.journal = &journal{start: time.Now()}
	o := runtime.NewObserver(n, n)
	o.Wake = func(id string) { n.add("wake %s", id) }
	o.Seen = func(c []runtime.ContainerState) { n.add("seen %s", c[0].ID) }
	o.Report = func(err error) { n.add("report %v", err) }
	if change != nil {
		change(o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	during(o)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	return n.take()
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func check(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func TestObserverSubscribesBeforeItLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{watch: func(ctx context.Context, _ int, ready func(), fn func(runtime.Event)) error {
			<-time.After(2 * time.Second) // the engine takes its time
			ready()
			<-time.After(3 * time.Second)
			fn(runtime.Event{KernelID: "k1", Action: "die", At: time.Now()})
			<-ctx.Done()
			return ctx.Err()
		}}
		got := observe(t, n, nil, func(*runtime.Observer) { pass(23 * time.Second) })
		check(t, []string{
			"  0.0 watch since -1.0",
			"  2.0 list", "  2.0 seen 1", "  2.0 report <nil>",
			"  5.0 wake k1",
			" 12.0 list", " 12.0 seen 2",
			" 22.0 list", " 22.0 seen 3",
		}, got)
	})
}

func TestObserverRelistsOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := observe(t, &node{}, nil, func(o *runtime.Observer) {
			pass(4 * time.Second)
			o.Relist()
			pass(9 * time.Second) // the interval counts from there
		})
		check(t, []string{
			"  0.0 watch since -1.0", "  0.0 list", "  0.0 seen 1", "  0.0 report <nil>",
			"  4.0 list", "  4.0 seen 2",
		}, got)
	})
}

func TestObserverResumesWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{watch: func(ctx context.Context, sub int, ready func(), fn func(runtime.Event)) error {
			ready()
			if sub > 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			<-time.After(7 * time.Second)
			fn(runtime.Event{KernelID: "k1", At: time.Now()})
			<-time.After(2 * time.Second)
			return nil // the engine was restarted
		}}
		got := observe(t, n, nil, func(*runtime.Observer) { pass(9500 * time.Millisecond) })
		check(t, []string{
			"  0.0 watch since -1.0", "  0.0 list", "  0.0 seen 1", "  0.0 report <nil>",
			"  7.0 wake k1",
			"  9.1 watch since 6.0", "  9.1 list", "  9.1 seen 2",
		}, got)
	})
}

// TestObserverWithoutAnEngine bounds how often a dead engine is tried and how
// often it is reported.
func TestObserverWithoutAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("no engine")
		var up atomic.Bool
		n := &node{
			list: func(context.Context, int) error {
				if up.Load() {
					return nil
				}
				return down
			},
			watch: func(ctx context.Context, _ int, ready func(), _ func(runtime.Event)) error {
				if !up.Load() {
					return down
				}
				ready()
				<-ctx.Done()
				return ctx.Err()
			},
		}
		var attempts int
		got := observe(t, n, nil, func(*runtime.Observer) {
			pass(time.Minute)
			n.mu2.Lock()
			attempts = n.subs
			n.mu2.Unlock()
			up.Store(true)
			pass(2 * time.Second)
		})
		if attempts < 45 || attempts > 65 {
			t.Errorf("%d attempts in a minute, want about one a second", attempts)
		}
		var reports, seen []string
		for _, l := range got {
			switch l[6:10] {
			case "repo":
				reports = append(reports, l[6:])
			case "seen":
				seen = append(seen, l)
			}
		}
		check(t, []string{"report container events: no engine", "report no engine", "report <nil>"}, reports)
		if len(seen) != 1 {
			t.Errorf("listings shown: %q, want the one that worked", seen)
		}
	})
}

func TestObserverDoesNotSpinOnAStreamThatEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{watch: func(_ context.Context, _ int, ready func(), _ func(runtime.Event)) error {
			ready()
			return nil
		}}
		observe(t, n, nil, func(*runtime.Observer) { pass(time.Minute) })
		if n.subs > 65 || n.lists > 72 {
			t.Errorf("%d subscriptions and %d listings in a minute, want about one a second", n.subs, n.lists)
		}
	})
}

// TestObserverRenewsASilentStream is a half-open connection: it never ends and
// never tells anything.
func TestObserverRenewsASilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := observe(t, &node{}, func(o *runtime.Observer) { o.Interval, o.IdleLimit = time.Hour, 30*time.Second },
			func(*runtime.Observer) { pass(50 * time.Second) })
		check(t, []string{
			"  0.0 watch since -1.0", "  0.0 list", "  0.0 seen 1", "  0.0 report <nil>",
			" 30.0 watch since -1.0", " 30.0 list", " 30.0 seen 2",
		}, got)
	})
}

func TestObserverSurvivesAListingThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{
			list: func(ctx context.Context, n int) error {
				if n != 2 {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			},
			watch: func(ctx context.Context, _ int, ready func(), fn func(runtime.Event)) error {
				ready()
				<-time.After(12 * time.Second)
				fn(runtime.Event{KernelID: "k1", At: time.Now()}) // while the listing hangs
				<-ctx.Done()
				return ctx.Err()
			},
		}
		got := observe(t, n, func(o *runtime.Observer) { o.ListLimit = 5 * time.Second },
			func(*runtime.Observer) { pass(26 * time.Second) })
		check(t, []string{
			"  0.0 watch since -1.0", "  0.0 list", "  0.0 seen 1", "  0.0 report <nil>",
			" 10.0 list", " 12.0 wake k1", " 15.0 report context deadline exceeded",
			" 25.0 list", " 25.0 seen 3", " 25.0 report <nil>",
		}, got)
	})
}

func TestObserverRelistNeverBlocks(*testing.T) {
	o := runtime.NewObserver(&node{}, &node{})
	for range 3 {
		o.Relist() // nobody listens yet
	}
}

func TestObserverMustBeMade(t *testing.T) {
	if err := new(runtime.Observer).Run(t.Context()); err == nil {
		t.Error("an observer without its parts ran")
	}
}
