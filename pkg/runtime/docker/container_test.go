// SPDX-License-Identifier: Apache-2.0

package docker_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/docker"
	"agentd/test/e2e/engine"
)

func TestContainerLife(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		ctx := t.Context()
		if _, found, err := e.Find(ctx, name); found || err != nil {
			t.Fatalf("before: found %v, error %v", found, err)
		}
		s := spec()
		s.Ports = []apis.PortLease{{Service: "sshd", Container: 2200, HostIP: "127.0.0.1", Host: 30001}}
		id, err := e.Create(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		want := runtime.ContainerState{
			ID: id, EngineName: name, KernelID: kernel, SessionID: "s1", Incarnation: 3, Hash: apis.ContainerHash(s),
			State: apis.ContainerCreated, Image: imgRef, Ports: []apis.PortLease{{Container: 2200, HostIP: "127.0.0.1", Host: 30001}},
			Labels: map[string]string{
				apis.LabelKernelID: kernel, apis.LabelSessionID: "s1", apis.LabelOwner: agent, apis.LabelAgentID: agent,
				apis.LabelIncarnation: "3", apis.LabelSpecHash: apis.ContainerHash(s),
			},
		}
		expect := func(state apis.ContainerState, exit int) {
			t.Helper()
			want.State, want.ExitCode = state, exit
			got, found, err := e.Find(ctx, name)
			if err != nil || !found {
				t.Fatalf("find: found %v, error %v", found, err)
			}
			ignore := cmpopts.IgnoreFields(runtime.ContainerState{}, "CreatedAt")
			if diff := cmp.Diff(want, got, ignore); diff != "" {
				t.Errorf("find (-want +got):\n%s", diff)
			}
			if got.CreatedAt.IsZero() {
				t.Error("find: no creation time")
			}
			list, err := e.List(ctx)
			if err != nil || len(list) != 1 {
				t.Fatalf("list = %v, error %v", list, err)
			}
			if state != apis.ContainerRunning { // a listing shows ports of running ones only
				ignore = cmp.Options{ignore, cmpopts.IgnoreFields(runtime.ContainerState{}, "Ports")}
			}
			if diff := cmp.Diff(want, list[0], ignore); diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
		}
		expect(apis.ContainerCreated, 0)
		for range 2 { // the second start finds it running
			if err := e.Start(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		expect(apis.ContainerRunning, 0)
		for range 2 {
			if err := e.Stop(ctx, id, 3*time.Second); err != nil {
				t.Fatal(err)
			}
		}
		expect(apis.ContainerExited, 130)
		if n := fake.Requests("POST", `/stop\?t=3$`); n != 2 {
			t.Errorf("%d stops with t=3, want 2", n)
		}
		for range 2 {
			if err := e.Remove(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		if n := fake.Requests("DELETE", `/containers/.*v=1`); n != 2 {
			t.Errorf("%d removals with volumes, want 2", n)
		}
		if err := e.Stop(ctx, id, 0); err != nil {
			t.Errorf("stopping what is gone: %v", err)
		}
		wantClass(t, e.Start(ctx, id), apis.ErrNotFound)
	})
}

func TestListTellsHowContainersEnded(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		for _, suffix := range []string{"a", "b", "c"} {
			s := spec()
			s.EngineName += suffix
			create(t, e, s)
		}
		fake.Exit(name+"a", 7)
		fake.OOM(name + "b")
		// The inspection of one fails: the listing still says how it ended.
		fake.Add(engine.Rule{Method: "GET", Path: "/containers/[0-9a-f]{64}/json", Nth: 1, Status: 500, Body: `{"message":"boom"}`})
		list, err := e.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, c := range list {
			got[c.EngineName] = c.ExitCode
		}
		if diff := cmp.Diff(map[string]int{name + "a": 7, name + "b": 137, name + "c": 0}, got); diff != "" {
			t.Errorf("exit codes (-want +got):\n%s", diff)
		}
		if n := fake.Requests("GET", "/containers/[0-9a-f]{64}/json"); n != 2 {
			t.Errorf("%d inspections, want 2: only ended containers are inspected", n)
		}
		if list, err = e.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c := list[1]; c.State != apis.ContainerExited || !c.OOMKilled {
			t.Errorf("container killed for memory = %+v", c)
		}
		fake.Add(engine.Rule{Method: "GET", Path: "/containers/json", Status: 500, Body: `{"message":"boom"}`})
		_, err = e.List(t.Context())
		wantClass(t, err, apis.ErrUnavailable, "boom")
	})
}

func TestContainersOfOthers(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		other := open(t, fake.Host(), func(o *docker.Options) { o.AgentID = "i-other" })
		create(t, other, spec())
		_, _, err := e.Find(t.Context(), name)
		wantClass(t, err, apis.ErrConflict, name, "i-other")
		_, err = e.Create(t.Context(), spec())
		wantClass(t, err, apis.ErrConflict, name)
		if list, err := e.List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("list = %v, error %v, want none", list, err)
		}
	})
}

func TestCreateFailures(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		for name, tc := range map[string]struct {
			change func(*apis.ContainerSpec)
			check  func(*testing.T, error)
		}{
			"image": {
				func(s *apis.ContainerSpec) { s.Image = "cr.example/none:1" },
				func(t *testing.T, err error) { wantClass(t, err, apis.ErrNotFound, "cr.example/none:1") },
			},
			"mount": {
				func(s *apis.ContainerSpec) { s.Mounts = []apis.Mount{{Source: "/no/such/dir", Target: "/x"}} },
				func(t *testing.T, err error) { wantTerminal(t, err, apis.ReasonMountMissing, "/no/such/dir") },
			},
			"mount twice": {
				func(s *apis.ContainerSpec) {
					s.Mounts = []apis.Mount{{Source: "/tmp", Target: "/x"}, {Source: "/tmp", Target: "/x"}}
				},
				func(t *testing.T, err error) { wantTerminal(t, err, apis.ReasonInvalid, "/x") },
			},
			"container port": {
				func(s *apis.ContainerSpec) { s.ExposedPorts = []int{70000} },
				func(t *testing.T, err error) { wantTerminal(t, err, apis.ReasonInvalid, "70000") },
			},
			"host address": {
				func(s *apis.ContainerSpec) {
					s.Ports = []apis.PortLease{{Service: "sshd", Container: 22, Host: 30000, HostIP: "localhost"}}
				},
				func(t *testing.T, err error) { wantTerminal(t, err, apis.ReasonInvalid, "sshd", "localhost") },
			},
			"device": {
				func(s *apis.ContainerSpec) { s.Devices = []string{"/dev/a:/dev/b:r:x"} },
				func(t *testing.T, err error) { wantTerminal(t, err, apis.ReasonInvalid, "/dev/a:/dev/b:r:x") },
			},
			"name": {
				func(s *apis.ContainerSpec) { s.EngineName = "" },
				func(t *testing.T, err error) { wantTerminal(t, err, apis.ReasonInvalid) },
			},
		} {
			t.Run(name, func(t *testing.T) {
				s := spec()
				tc.change(&s)
				_, err := e.Create(t.Context(), s)
				tc.check(t, err)
			})
		}
		if list, err := e.List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("containers left behind: %v, error %v", list, err)
		}
		_ = fake
	})
}

func TestStartFailures(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		fake.Occupy(30007)
		s := spec()
		s.Ports = []apis.PortLease{{Service: "sshd", Container: 2200, HostIP: "127.0.0.1", Host: 30007}}
		id, err := e.Create(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		var inUse *apis.PortInUseError
		if err := e.Start(t.Context(), id); !errors.As(err, &inUse) || inUse.Port != 30007 {
			t.Errorf("start with a taken port: %v, want port 30007 in use", err)
		}
		if c, _, err := e.Find(t.Context(), name); err != nil || c.State != apis.ContainerCreated {
			t.Errorf("afterwards %+v, error %v, want it created", c, err)
		}

		s = spec()
		s.EngineName, s.NetworkMode = "kernel.python.net", "gone"
		if id, err = e.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		err = e.Start(t.Context(), id)
		if wantClass(t, err, apis.ErrUnavailable, "gone"); errors.Is(err, apis.ErrNotFound) {
			t.Errorf("%v reads as if the container were gone", err)
		}
	})
}

func TestLostAnswersAreUnavailable(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		fake.Add(engine.Rule{Method: "POST", Path: "/containers/create", Nth: 1, LoseAnswer: true})
		_, err := e.Create(t.Context(), spec())
		wantClass(t, err, apis.ErrUnavailable)
		if _, found, err := e.Find(t.Context(), name); !found || err != nil {
			t.Errorf("found %v, error %v: the engine did make it", found, err)
		}
	})
}

func TestStopKillsWhenTheEngineHangs(t *testing.T) {
	fake := engine.NewFake(t)
	fake.AddImage(imgRef, "amd64", nil, nil)
	id := create(t, open(t, fake.Host()), spec())
	e := open(t, fake.Host(), func(o *docker.Options) { o.CallTimeout = time.Second })
	fake.Add(engine.Rule{Method: "POST", Path: "/stop", Hold: true})
	if err := e.Stop(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if got := fake.State(name); got != "exited" {
		t.Errorf("state %q, want exited", got)
	}
}

func TestRemoveUnderWay(t *testing.T) {
	fake := engine.NewFake(t)
	e := open(t, fake.Host())
	fake.Add(engine.Rule{Method: "DELETE", Path: "/containers/", Status: http.StatusConflict, Body: `{"message":"removal of container x is already in progress"}`})
	err := e.Remove(t.Context(), "x")
	if wantClass(t, err, apis.ErrUnavailable, "in progress"); errors.Is(err, apis.ErrConflict) {
		t.Errorf("%v is a conflict", err)
	}
}
