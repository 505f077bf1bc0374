// SPDX-License-Identifier: Apache-2.0

package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/controller/intake"
	"agentd/pkg/reconciler"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/fake"
)

// story runs an agent on a node in memory, in simulated time.
func story(t *testing.T, tell func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, breakage{})
		r.boot()
		tell(t, r)
		r.crash()
	})
}

// settle waits until nothing is left to do now.
func (r *rig) settle() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 24*time.Hour)
	defer cancel()
	if err := r.set.Work.Settle(ctx); err != nil {
		r.t.Fatalf("%v: %v", r.set.Work.Open(), err)
	}
}

// did compares the world's log since the last call with text.
func (r *rig) did(want string) {
	r.t.Helper()
	var got []string
	for _, c := range r.world.Log()[r.seen:] {
		got = append(got, c.String())
	}
	r.seen = len(r.world.Log())
	if d := cmp.Diff(textLines(want), got); d != "" {
		r.t.Errorf("what was done (-want +got):\n%s", d)
	}
}

// didTo compares what was done to things of one kind with text.
func (r *rig) didTo(kind apis.Kind, want string) {
	r.t.Helper()
	var got []string
	for _, c := range r.world.Log()[r.seen:] {
		if c.Kind == kind {
			got = append(got, c.String())
		}
	}
	if d := cmp.Diff(textLines(want), got); d != "" {
		r.t.Errorf("what was done to %ss (-want +got):\n%s", kind, d)
	}
}

// told returns the kernel's events as "type reason".
func (r *rig) told(kernel string) []string {
	var out []string
	for _, e := range r.tables.Events.Reader().List() {
		if e.Spec.KernelID == kernel {
			out = append(out, strings.TrimSpace(string(e.Spec.Type)+" "+e.Spec.Reason))
		}
	}
	return out
}

func (r *rig) mustCreate(s intake.Session) {
	r.t.Helper()
	if err := r.door.Create(s); err != nil {
		r.t.Fatal(err)
	}
}

// textLines splits a text into its lines, without indentation and empty ones.
func textLines(text string) []string {
	var out []string
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// one is a session of one kernel with changes to its spec.
func one(edit func(*apis.KernelSpec)) intake.Session {
	s := testSession("a", 1)
	k := s.Kernels[s.Spec.Kernels[0]]
	edit(&k)
	s.Kernels[s.Spec.Kernels[0]] = k
	return s
}

func TestLifeOfOneKernel(t *testing.T) {
	story(t, func(t *testing.T, r *rig) {
		r.mustCreate(testSession("a", 1))
		st, err := r.door.WaitReady(t.Context(), "a-k0")
		if err != nil || st.Phase != apis.PhaseRunning || len(st.ServicePorts) != 2 {
			t.Errorf("status %+v, %v", st, err)
		}
		r.settle()
		r.did(`
			create scratch a-k0 12 files
			create container kernel.test.a-k0 image agentd.local/test:1, incarnation 1
			write scratch a-k0 config/resource.txt: content differs
			start container kernel.test.a-k0`)
		if err := r.door.DestroySession("a", apis.ReasonUserRequested, ""); err != nil {
			t.Fatal(err)
		}
		r.settle()
		r.did(`
			stop container kernel.test.a-k0
			remove container kernel.test.a-k0
			remove scratch a-k0`)
		want := []string{
			"kernel_preparing", "kernel_creating", "kernel_started",
			"kernel_terminating user-requested", "kernel_terminated user-requested",
		}
		if got := r.told("a-k0"); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

func TestClusterNetworkComesFirstAndGoesLast(t *testing.T) {
	story(t, func(t *testing.T, r *rig) {
		r.mustCreate(testSession("a", 2))
		r.settle()
		if err := r.door.DestroySession("a", apis.ReasonUserRequested, ""); err != nil {
			t.Fatal(err)
		}
		r.settle()
		log := r.world.Log()
		first, last := log[0].String(), log[len(log)-1].String()
		if first != "create network bai-singlenode-a bridge" || last != "remove network bai-singlenode-a" {
			t.Errorf("first %q, last %q", first, last)
		}
	})
}

func TestRestartKeepsScratchAndPorts(t *testing.T) {
	story(t, func(t *testing.T, r *rig) {
		r.mustCreate(testSession("a", 1))
		r.settle()
		before, _ := r.tables.Bindings.Reader().Get("a-k0")
		r.seen = len(r.world.Log())
		if err := r.door.Restart("a-k0", nil); err != nil {
			t.Fatal(err)
		}
		r.settle()
		// Scratch and container are worked on side by side: only the order of each is fixed.
		r.didTo(apis.KindScratch, `
			write scratch a-k0 config/resource.txt agentd.json: content differs
			write scratch a-k0 config/resource.txt: content differs`)
		r.didTo(apis.KindContainer, `
			stop container kernel.test.a-k0
			remove container kernel.test.a-k0
			create container kernel.test.a-k0 image agentd.local/test:1, incarnation 2
			start container kernel.test.a-k0`)
		after, _ := r.tables.Bindings.Reader().Get("a-k0")
		if d := cmp.Diff(before.Status.Ports, after.Status.Ports); d != "" {
			t.Errorf("ports changed:\n%s", d)
		}
		want := []string{"kernel_preparing", "kernel_creating", "kernel_started", "kernel_started"}
		if got := r.told("a-k0"); !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

// TestFailuresToCreate: whatever keeps a kernel from starting, its end is told
// once with the reason, and nothing of it is left.
func TestFailuresToCreate(t *testing.T) {
	refuse := func(op string, n int) func(*rig) {
		return func(r *rig) { r.refuse(op, n) }
	}
	for name, c := range map[string]struct {
		session intake.Session
		before  func(*rig)
		message string
	}{
		"image missing": {
			session: one(func(k *apis.KernelSpec) { k.Image = apis.ImageRef{Canonical: "nobody/has:this", Local: true} }),
			message: "ImageMissing: image nobody/has:this is not on this node",
		},
		"other architecture": {
			session: one(func(k *apis.KernelSpec) { k.Image.Architecture = "arm64" }),
			message: "Invalid: image agentd.local/test:1 is for x86_64, the kernel asks for aarch64",
		},
		"too much memory": {
			session: one(func(k *apis.KernelSpec) { k.Slots["mem"] = "1099511627776" }),
			message: "InsufficientResources: slot mem: 1099511627776 requested",
		},
		"unknown slot": {
			session: one(func(k *apis.KernelSpec) { k.Slots["tpu.device"] = "1" }),
			message: "Invalid: slot tpu.device: 1 requested: this node has no such slot",
		},
		"reserved port": {
			session: one(func(k *apis.KernelSpec) { k.PreopenPorts = []int{2000} }),
			message: "Invalid: service 2000: port 2000",
		},
		"ports exhausted": {
			session: one(func(k *apis.KernelSpec) {
				for p := range 300 {
					k.PreopenPorts = append(k.PreopenPorts, 10000+p)
				}
			}),
			message: "PortsExhausted: kernel a-k0: 302 host ports wanted, 256 free",
		},
		"engine refuses to start":  {session: testSession("a", 1), before: refuse("start", 100), message: "after 4 attempts"},
		"engine refuses to create": {session: testSession("a", 1), before: refuse("create", 100), message: "after 4 attempts"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, r *rig) {
				if c.before != nil {
					c.before(r)
				}
				r.mustCreate(c.session)
				_, err := r.door.WaitReady(t.Context(), "a-k0")
				var failed *intake.FailedError
				if !errors.As(err, &failed) || failed.Reason != apis.ReasonFailedToCreate || !strings.Contains(failed.Message, c.message) {
					t.Errorf("error %v, want failed-to-create with %q", err, c.message)
				}
				r.settle()
				r.mustBeEmpty()
				ends := slices.DeleteFunc(r.told("a-k0"), func(s string) bool { return !strings.HasPrefix(s, "kernel_terminated") })
				if !slices.Equal(ends, []string{"kernel_terminated failed-to-create"}) {
					t.Errorf("ends %q", ends)
				}
			})
		})
	}
}

// mustBeEmpty checks that neither the node nor the store has anything left.
func (r *rig) mustBeEmpty() {
	r.t.Helper()
	left := r.world.Scratches()
	left = append(left, r.world.Networks()...)
	for _, c := range r.world.Containers() {
		left = append(left, c.EngineName)
	}
	for _, k := range r.set.Store.Keys() {
		if k.Kind != apis.KindEvent && k.Kind != apis.KindNode {
			left = append(left, k.String())
		}
	}
	if len(left) > 0 {
		r.t.Errorf("left over: %q", left)
	}
}

// TestPortsTakenByStrangers: ports that turn out to be taken are given up for
// others, a bounded number of times.
func TestPortsTakenByStrangers(t *testing.T) {
	story(t, func(t *testing.T, r *rig) {
		// A container of somebody else runs with the first two ports of the range.
		r.world.Put(runtime.ContainerState{
			ID: "x", EngineName: "stranger", KernelID: "stranger", State: apis.ContainerRunning,
			Ports: []apis.PortLease{{Host: 30000}, {Host: 30001}},
		})
		r.mustCreate(testSession("a", 1))
		st, err := r.door.WaitReady(t.Context(), "a-k0")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range st.ServicePorts {
			if s.HostPorts[0] < 30002 {
				t.Errorf("service %s got port %d, which is taken", s.Name, s.HostPorts[0])
			}
		}
		b, _ := r.tables.Bindings.Reader().Get("a-k0")
		if n := len(b.Spec.AvoidPorts); n == 0 || n > 2 {
			t.Errorf("avoided %v", b.Spec.AvoidPorts)
		}
	})
}

// TestDestroyDuringCreation: the wish to end a kernel that is still being made
// undoes what was made, and the end carries the reason given (B003, W-49).
func TestDestroyDuringCreation(t *testing.T) {
	for _, after := range []time.Duration{0, 3 * time.Second, 7 * time.Second, 12 * time.Second, 17 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			story(t, func(t *testing.T, r *rig) {
				r.world.Delay = 5 * time.Second
				r.mustCreate(testSession("a", 2))
				time.Sleep(after)
				if err := r.door.DestroySession("a", apis.ReasonUserRequested, ""); err != nil {
					t.Fatal(err)
				}
				r.settle()
				r.mustBeEmpty()
				for _, k := range []string{"a-k0", "a-k1"} {
					told := r.told(k)
					if len(told) == 0 || told[len(told)-1] != "kernel_terminated user-requested" {
						t.Errorf("told of %s: %q", k, told)
					}
				}
			})
		})
	}
}

// TestDestroyIsIdempotent: many wishes and a death at the same time are one
// end (B017); what does not exist is reported as already gone (B018).
func TestDestroyIsIdempotent(t *testing.T) {
	story(t, func(t *testing.T, r *rig) {
		r.mustCreate(testSession("a", 1))
		r.settle()
		r.world.Exit("a-k0", 9)
		for range 5 {
			if err := r.door.DestroyKernel("a-k0", "a", apis.ReasonUserRequested, false); err != nil {
				t.Fatal(err)
			}
			r.hint("a-k0", true)
		}
		r.settle()
		r.mustBeEmpty()
		ends := 0
		for _, e := range r.told("a-k0") {
			if strings.HasPrefix(e, "kernel_terminated") {
				ends++
			}
		}
		if ends != 1 {
			t.Errorf("told %q", r.told("a-k0"))
		}
		if err := r.door.DestroyKernel("nobody", "a", apis.ReasonUserRequested, true); err != nil || len(r.told("nobody")) != 0 {
			t.Errorf("suppressed: %v, told %q", err, r.told("nobody"))
		}
		if err := r.door.DestroyKernel("nobody", "a", apis.ReasonUserRequested, false); err != nil {
			t.Fatal(err)
		}
		if got := r.told("nobody"); !slices.Equal(got, []string{"kernel_terminated already-terminated"}) {
			t.Errorf("told %q", got)
		}
	})
}

// TestCreateIsIdempotent: an equal request joins, another one is a conflict (B002).
func TestCreateIsIdempotent(t *testing.T) {
	story(t, func(t *testing.T, r *rig) {
		s := testSession("a", 2)
		r.mustCreate(s)
		r.mustCreate(s)
		r.settle()
		r.mustCreate(s)
		other := testSession("a", 2)
		k := other.Kernels["a-k1"]
		k.Command = []string{"sleep"}
		other.Kernels["a-k1"] = k
		if err := r.door.Create(other); !errors.Is(err, apis.ErrConflict) {
			t.Errorf("another spec: %v, want a conflict", err)
		}
		r.settle()
		if n := len(r.world.Containers()); n != 2 {
			t.Errorf("%d containers, want 2", n)
		}
	})
}

// TestOneOfThreeFails: the others stay (B014).
func TestOneOfThreeFails(t *testing.T) {
	story(t, func(t *testing.T, r *rig) {
		s := testSession("a", 3)
		k := s.Kernels["a-k1"]
		k.Image.Canonical = "nobody/has:this"
		s.Kernels["a-k1"] = k
		r.mustCreate(s)
		err := r.door.WaitSessionReady(t.Context(), "a")
		if err == nil || !strings.Contains(err.Error(), "kernel a-k1: failed-to-create: ImageMissing") {
			t.Errorf("error %v", err)
		}
		r.settle()
		for _, id := range []string{"a-k0", "a-k2"} {
			if _, err := r.door.WaitReady(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		if n := len(r.world.Scratches()); n != 2 {
			t.Errorf("%d scratches, want 2", n)
		}
	})
}

// TestOneAbsenceIsNotEvidence: a container that one look does not find is not
// given up; one that stays away is (B035, B038).
func TestOneAbsenceIsNotEvidence(t *testing.T) {
	story(t, func(t *testing.T, r *rig) {
		r.mustCreate(testSession("a", 1))
		r.settle()
		c := r.world.Containers()[0]
		r.world.Vanish("a-k0")
		r.hint("a-k0", true)
		synctest.Wait()
		r.world.Put(c) // it was there all the time
		r.settle()
		if _, ok := r.tables.Kernels.Reader().Get("a-k0"); !ok || len(r.told("a-k0")) != 3 {
			t.Fatalf("the kernel was given up: told %q", r.told("a-k0"))
		}
		r.world.Vanish("a-k0")
		time.Sleep(15 * time.Second) // the next listing finds it
		r.settle()
		told := r.told("a-k0")
		if told[len(told)-1] != "kernel_terminated container-not-found" {
			t.Errorf("told %q", told)
		}
		r.mustBeEmpty()
	})
}

// TestStrays: created and ended strays go after the grace, not before (B040).
func TestStrays(t *testing.T) {
	story(t, func(t *testing.T, r *rig) {
		for i, st := range []apis.ContainerState{apis.ContainerCreated, apis.ContainerExited, apis.ContainerRunning} {
			name := fmt.Sprintf("stray%d", i)
			r.world.Put(runtime.ContainerState{ID: name, EngineName: name, KernelID: name, State: st})
		}
		time.Sleep(50 * time.Second)
		if n := len(r.world.Containers()); n != 3 {
			t.Fatalf("%d strays are left before the grace is over", n)
		}
		time.Sleep(time.Minute)
		r.settle()
		r.mustBeEmpty()
	})
}

// TestLostCheckpoint: kernels are known again by the manifests in their
// scratches; what has none is left alone (B030).
func TestLostCheckpoint(t *testing.T) {
	story(t, func(t *testing.T, r *rig) {
		r.mustCreate(testSession("a", 2))
		r.settle()
		r.world.Put(runtime.ContainerState{ID: "x", EngineName: "unknown", KernelID: "unknown", State: apis.ContainerRunning})
		r.seen = len(r.world.Log())
		r.crash()
		r.disk = controller.NewMemory()
		r.bootLost()
		time.Sleep(10 * time.Minute)
		r.settle()
		r.did("")
		for _, k := range []string{"a-k0", "a-k1"} {
			st, err := r.door.WaitReady(t.Context(), k)
			if err != nil || st.Phase != apis.PhaseRunning {
				t.Errorf("kernel %s: %+v, %v", k, st, err)
			}
			if told := r.told(k); len(told) != 0 {
				t.Errorf("told %q of a kernel that went on", told)
			}
		}
		c, ok := r.tables.Containers.Reader().Get("unknown")
		if !ok || c.Labels[reconciler.LeftAlone] == "" {
			t.Errorf("the container without a manifest: %+v", c)
		}
		if err := r.door.DestroySession("a", apis.ReasonUserRequested, ""); err != nil {
			t.Fatal(err)
		}
		if err := r.set.Sweep.ReleaseLeftAlone(); err != nil {
			t.Fatal(err)
		}
		r.settle()
		r.mustBeEmpty()
	})
}

// TestStopThatHangs: a kernel that the engine does not stop is removed by
// force, and is not reported as gone before (B021).
func TestStopThatHangs(t *testing.T) {
	story(t, func(t *testing.T, r *rig) {
		r.mustCreate(testSession("a", 1))
		r.settle()
		r.refuse("stop", 1)
		if err := r.door.DestroySession("a", apis.ReasonUserRequested, ""); err != nil {
			t.Fatal(err)
		}
		r.settle()
		r.mustBeEmpty()
	})
}

// refuse makes the engine answer the next n changes of that kind to containers with an error of its own.
func (r *rig) refuse(op string, n int) {
	r.world.Refuse = func(c fake.Change) error {
		if c.Op != op || c.Kind != apis.KindContainer || n == 0 {
			return nil
		}
		n--
		return fmt.Errorf("engine: %s is not possible", op)
	}
}

// bootLost starts the process on an empty checkpoint, as the daemon does.
func (r *rig) bootLost() {
	r.t.Helper()
	r.adopt = true
	r.boot()
}
