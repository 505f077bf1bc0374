// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"os/exec"
	"testing"
	"time"
)

// The tests of this file stop the engine itself, and with it the containers of
// everybody. They are the last of the package: Go runs tests in the order of
// the names of their files.

// dockerd runs hack/dockerd.sh.
func dockerd(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("../../hack/dockerd.sh", args...).CombinedOutput(); err != nil {
		t.Fatalf("dockerd.sh %v: %v\n%s", args, err, out)
	}
}

// TestEngineRestart: agentd sits out a restart of the engine, and tells what
// became of the kernels: they ended with it, or lived on.
func TestEngineRestart(t *testing.T) {
	t.Cleanup(func() { dockerd(t, "restart") })
	t.Run("kernels end with the engine", func(t *testing.T) {
		// An engine that is asked to remove a network while it shuts down can
		// say that it is gone and bring it back: the sweep finds it then.
		a := newAgent(t, quick, with("agentd.sweep-grace", `"2s"`))
		file := a.applied("s", 2)
		kernels := a.kernels()
		a.restartEngine(func() {})
		for _, k := range kernels {
			e := a.ended(k, 15*time.Second)
			if e.Reason != "self-terminated" || e.Exit == "" {
				t.Errorf("kernel %s ended as %v", k, e)
			}
		}
		a.mustBeClean()
		a.must("apply", "-f", file) // a new life under the old name
		a.must("delete", "-f", file)
		a.mustBeClean()
	})
	t.Run("kernels live on", func(t *testing.T) {
		dockerd(t, "restart", "--live-restore")
		a := newAgent(t, quick)
		file := a.applied("s", 2)
		kernels := a.kernels()
		before := a.ids(kernels)
		// One of them ends while nobody looks.
		pid := a.docker("inspect", "-f", "{{.State.Pid}}", a.container(kernels[0]))
		a.restartEngine(func() {
			if out, err := exec.Command("kill", "-9", pid).CombinedOutput(); err != nil {
				t.Errorf("kill %s: %v %s", pid, err, out)
			}
		}, "--live-restore")
		if e := a.ended(kernels[0], 15*time.Second); e.Reason != "self-terminated" {
			t.Errorf("the one that ended is reported as %v", e)
		}
		delete(before, kernels[0])
		if after := a.ids(kernels[1:]); !maps.Equal(after, before) {
			t.Errorf("containers %v, want %v", after, before)
		}
		for _, k := range kernels[1:] {
			if ends := a.ends(k); len(ends) > 0 {
				t.Errorf("kernel %s is reported ended: %v", k, ends)
			}
			if got := a.must("exec", k, "--", "echo", "here"); got != "here" {
				t.Errorf("exec in kernel %s: %q", k, got)
			}
		}
		a.must("delete", "-f", file)
		a.mustBeClean()
		for _, k := range kernels {
			a.ended(k, 0)
		}
	})
}

// restartEngine stops the engine and starts it again; agentd must notice both
// and end no kernel meanwhile.
func (a *agent) restartEngine(meanwhile func(), flags ...string) {
	a.t.Helper()
	stopped := false
	a.t.Cleanup(func() {
		if stopped {
			dockerd(a.t, append([]string{"start"}, flags...)...)
		}
	})
	stopped = true
	dockerd(a.t, "stop")
	a.node("EngineReachable", false)
	meanwhile()
	if r := a.run("apply", "--wait=false", "-f", a.session("meanwhile", 0)); r.code != 0 {
		a.t.Errorf("a session is refused while the engine is down: %s", r.err)
	}
	dockerd(a.t, append([]string{"start"}, flags...)...)
	stopped = false
	a.node("EngineReachable", true)
	a.must("apply", "-f", a.path("meanwhile.yaml"))
	a.must("delete", "-f", a.path("meanwhile.yaml"))
}
