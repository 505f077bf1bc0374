// SPDX-License-Identifier: Apache-2.0

package reconciler_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"agentd/pkg/apis"
	"agentd/pkg/runtime/fake"
)

// step is one thing that happens to a node in a schedule.
type step struct {
	// Op is create, delete, restart, exit, vanish, crash, cut, wait.
	Op string
	// Session is the session that it happens to.
	Session int
	// N is the kernel within the session, the exit code, the commits before a
	// cut, or milliseconds.
	N int
	// After tells that a cut comes after the commit is on disk, not before.
	After bool
}

const sessions, kernelsEach = 4, 2

// drawSchedule draws what happens, and a seed for the faults.
func drawSchedule(rt *rapid.T) ([]step, uint64) {
	one := rapid.Custom(func(rt *rapid.T) step {
		return step{
			Op: rapid.SampledFrom([]string{
				"create", "create", "create", "delete", "restart", "exit", "vanish", "crash", "cut", "cut", "wait", "wait",
			}).Draw(rt, "op"),
			Session: rapid.IntRange(0, sessions-1).Draw(rt, "session"),
			N:       rapid.IntRange(0, 700).Draw(rt, "n"),
			After:   rapid.Bool().Draw(rt, "after"),
		}
	})
	return rapid.SliceOfN(one, 4, 24).Draw(rt, "steps"), rapid.Uint64().Draw(rt, "seed")
}

// breakage removes one safeguard, to see that its loss is noticed.
type breakage struct {
	// forget are kinds that never reach the disk.
	forget []apis.Kind
	// noFact keeps the start fact from the disk.
	noFact bool
	// noRemove lets removals of containers do nothing.
	noRemove bool
}

// TestSchedules: whatever fails and whenever the process dies, the node ends up
// as wanted, nothing is started twice, and every end is told once, in order.
func TestSchedules(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue { // unless somebody asked for another number
		if err := f.Value.Set("1000"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		steps, seed := drawSchedule(rt)
		if bad := runSchedule(t, steps, seed, breakage{}); len(bad) > 0 {
			rt.Fatalf("%s", strings.Join(bad, "\n"))
		}
	})
}

// TestSchedulesNotice: each safeguard that is taken away makes schedules fail.
func TestSchedulesNotice(t *testing.T) {
	for name, b := range map[string]breakage{
		"start fact is not on disk":         {noFact: true},
		"containers are not durable":        {forget: []apis.Kind{apis.KindContainer}},
		"kernels are not durable":           {forget: []apis.Kind{apis.KindKernel}},
		"bindings are not durable":          {forget: []apis.Kind{apis.KindBinding}},
		"events are not durable":            {forget: []apis.Kind{apis.KindEvent}},
		"teardown leaves out the container": {noRemove: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(400) {
				if bad := runSchedule(t, randomSteps(seed), seed, b); len(bad) > 0 {
					t.Logf("noticed with seed %d: %s", seed, bad[0])
					return
				}
			}
			t.Fatal("400 schedules did not notice")
		})
	}
}

// randomSteps makes a schedule from a seed alone.
func randomSteps(seed uint64) []step {
	rng := rand.New(rand.NewPCG(seed, 1))
	ops := []string{"create", "create", "delete", "restart", "exit", "vanish", "crash", "cut", "cut", "wait", "wait"}
	out := make([]step, 8+rng.IntN(16))
	for i := range out {
		out[i] = step{Op: ops[rng.IntN(len(ops))], Session: rng.IntN(sessions), N: rng.IntN(700), After: rng.IntN(2) == 0}
	}
	return out
}

// life is what a schedule did to one session.
type life struct {
	id      string
	deleted bool
	// ended are the kernels whose container ended or vanished while it ran.
	ended map[string]bool
	// unsure are the kernels of which either can be right.
	unsure map[string]bool
	// restarted are the kernels that were asked to start anew.
	restarted map[string]bool
}

// runSchedule plays a schedule and returns what is wrong at its end.
func runSchedule(t *testing.T, steps []step, seed uint64, br breakage) (bad []string) {
	synctest.Test(t, func(t *testing.T) {
		rng := &lockedRand{r: rand.New(rand.NewPCG(seed, 2))}
		r := newRig(t, br)
		r.world.Delay = 40 * time.Millisecond
		r.fault = func() fake.Outcome {
			switch rng.IntN(8) {
			case 0:
				return fake.NotDone
			case 1:
				return fake.AnswerLost
			}
			return fake.Works
		}
		r.faulty.Store(true)
		r.boot()
		var all []*life
		live := make([]*life, sessions)
		for _, s := range steps {
			r.rebootIfDead()
			l := live[s.Session]
			kernel := ""
			if l != nil {
				kernel = fmt.Sprintf("%s-k%d", l.id, s.N%kernelsEach)
			}
			switch {
			case s.Op == "wait":
				time.Sleep(time.Duration(s.N) * 4 * time.Millisecond)
			case s.Op == "crash":
				r.crash()
				r.boot()
			case s.Op == "cut":
				r.cutAfter(s.N%9, s.After)
			case s.Op == "create" && l == nil:
				l = &life{id: fmt.Sprintf("s%d", len(all)), ended: map[string]bool{}, unsure: map[string]bool{}, restarted: map[string]bool{}}
				if r.create(l.id, kernelsEach) {
					all, live[s.Session] = append(all, l), l
				}
			case l == nil:
			case s.Op == "delete":
				if r.delete(l.id) {
					l.deleted, live[s.Session] = true, nil
				}
			case s.Op == "restart":
				if r.restart(kernel) {
					l.restarted[kernel] = true
				}
			case s.Op == "exit":
				if r.world.Exit(kernel, s.N%3) {
					l.ended[kernel] = true
					r.hint(kernel, rng.IntN(2) == 0)
				}
			case s.Op == "vanish":
				switch r.world.Vanish(kernel) {
				case apis.ContainerRunning:
					l.ended[kernel] = true
				case apis.ContainerCreated: // made anew, or ended if its start had been decided
					l.unsure[kernel] = true
				case apis.ContainerExited, apis.ContainerGone:
				}
				r.hint(kernel, rng.IntN(2) == 0)
			}
		}
		if err := r.quiet(); err != nil {
			bad = append(bad, fmt.Sprintf("%v is still being worked on: %v", r.set.Work.Open(), err))
		}
		bad = append(bad, r.wrong(all)...)
		r.crash()
	})
	return bad
}

// lockedRand is a source of chance for several goroutines.
type lockedRand struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (l *lockedRand) IntN(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.IntN(n)
}

// wrong compares the node and the store with what the schedule asked for.
func (r *rig) wrong(all []*life) []string {
	var bad []string
	fail := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	for _, v := range r.world.Violations() {
		fail("violation: %s", v)
	}
	want := map[string]bool{} // kernels that must be there
	may := map[string]bool{}  // kernels that may be there
	for _, l := range all {
		for i := range kernelsEach {
			k := fmt.Sprintf("%s-k%d", l.id, i)
			switch {
			case l.deleted:
			case l.unsure[k], l.ended[k] && l.restarted[k]: // whichever came first
				may[k] = true
			case l.ended[k]:
			default:
				want[k], may[k] = true, true
			}
		}
	}
	bad = append(bad, r.wrongNode(want, may)...)
	bad = append(bad, r.wrongEvents(all)...)
	return bad
}

// wrongNode checks objects against the world, both ways.
func (r *rig) wrongNode(want, may map[string]bool) []string {
	var bad []string
	fail := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	running := map[string]int{}
	for _, c := range r.world.Containers() {
		running[c.KernelID]++
		k, ok := r.tables.Kernels.Reader().Get(c.KernelID)
		switch {
		case !ok:
			fail("container of %s is left over", c.KernelID)
		case c.State != apis.ContainerRunning:
			fail("container of %s is %s", c.KernelID, c.State)
		case c.Incarnation != k.Spec.Incarnation:
			fail("%s runs incarnation %d, wanted %d", c.KernelID, c.Incarnation, k.Spec.Incarnation)
		}
	}
	ports := map[int]string{}
	kernels := r.tables.Kernels.Reader().List()
	for _, k := range kernels {
		if !may[k.Name] {
			fail("kernel %s should be gone, is %s", k.Name, k.Status.Phase)
		}
		if !k.Status.Conditions.IsReady(k.Generation) {
			fail("kernel %s is not ready: %+v", k.Name, k.Status.Conditions)
		}
		if running[k.Name] != 1 {
			fail("kernel %s has %d containers", k.Name, running[k.Name])
		}
		delete(want, k.Name)
	}
	for k := range want {
		fail("kernel %s is lost", k)
	}
	for _, b := range r.tables.Bindings.Reader().List() {
		if _, ok := r.tables.Kernels.Reader().Get(b.Name); !ok {
			fail("binding %s is left over", b.Name)
		}
		for _, p := range b.Status.Ports {
			if other, dup := ports[p.Host]; dup {
				fail("port %d is held by %s and %s", p.Host, other, b.Name)
			}
			ports[p.Host] = b.Name
		}
	}
	if b := r.tables.Bindings.Reader().Len(); b != len(kernels) {
		fail("%d bindings for %d kernels", b, len(kernels))
	}
	if s := r.world.Scratches(); len(s) != len(kernels) {
		fail("scratches %v for %d kernels", s, len(kernels))
	}
	sess := r.tables.Sessions.Reader().List()
	if n := r.world.Networks(); len(n) != len(sess) {
		fail("networks %v for %d sessions", n, len(sess))
	}
	return bad
}

// wrongEvents checks that every start and end was told, in order, and every end once.
func (r *rig) wrongEvents(all []*life) []string {
	var bad []string
	fail := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	order := []apis.EventType{
		apis.EventKernelPreparing, apis.EventKernelPulling, apis.EventKernelCreating,
		apis.EventKernelStarted, apis.EventKernelTerminating, apis.EventKernelTerminated,
	}
	told := map[string][]apis.EventType{}
	for _, e := range r.tables.Events.Reader().List() {
		told[e.Spec.KernelID] = append(told[e.Spec.KernelID], e.Spec.Type)
	}
	for _, l := range all {
		for i := range kernelsEach {
			k := fmt.Sprintf("%s-k%d", l.id, i)
			_, there := r.tables.Kernels.Reader().Get(k)
			last, ends, starts := -1, 0, 0
			for _, e := range told[k] {
				at := slices.Index(order, e)
				if at < last || at == last && e != apis.EventKernelStarted {
					fail("%s: events out of order: %v", k, told[k])
				}
				last = at
				if e == apis.EventKernelTerminated {
					ends++
				}
				if e == apis.EventKernelStarted {
					starts++
				}
			}
			if there && (ends != 0 || starts == 0) || !there && ends != 1 {
				fail("%s: there=%v, events %v", k, there, told[k])
			}
		}
	}
	return bad
}
