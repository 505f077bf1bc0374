// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// B030: without its state, agentd knows its kernels again from what is on the node.
func TestStateLost(t *testing.T) {
	a := newAgent(t, quick)
	file := a.applied("s", 2)
	kernels := a.kernels()
	before, held := a.ids(kernels), map[string]string{}
	for _, k := range kernels {
		held[k] = a.held(k)
	}
	a.kill()
	if err := os.RemoveAll(a.path("state")); err != nil {
		t.Fatal(err)
	}
	a.start()
	a.node("StateComplete", true)
	if now := a.kernels(); !slices.Equal(slices.Sorted(slices.Values(now)), slices.Sorted(slices.Values(kernels))) {
		t.Fatalf("kernels %q, want %q", now, kernels)
	}
	a.must("apply", "-f", file) // the same session still, and ready
	if after := a.ids(kernels); !maps.Equal(after, before) {
		t.Errorf("containers %v, want %v", after, before)
	}
	for _, k := range kernels {
		if got := a.held(k); got != held[k] {
			t.Errorf("kernel %s holds %s, want %s", k, got, held[k])
		}
		if got := a.must("exec", k, "--", "echo", "here"); got != "here" {
			t.Errorf("exec in kernel %s: %q", k, got)
		}
		a.must("logs", k)
		if ends := a.ends(k); len(ends) > 0 {
			t.Errorf("kernel %s is reported ended: %v", k, ends)
		}
	}
	another := a.applied("another", 0)
	a.must("delete", "-f", another)
	a.must("delete", "-f", file)
	a.mustBeClean()
	for _, k := range kernels {
		a.ended(k, 0)
	}
}

// damage hurts the scratches of four kernels in four ways.
func (a *agent) damage(kernels []string) {
	a.t.Helper()
	scratch := func(i int, elem ...string) string {
		return a.path(append([]string{"scratches", kernels[i]}, elem...)...)
	}
	err := errors.Join(
		os.Remove(scratch(0, "config", "resource.txt")),
		os.Truncate(scratch(1, "config", "environ.txt"), 0),
		os.WriteFile(scratch(2, "agentd.json"), []byte{0, 159, 7, 255, '{'}, 0o600),
		os.RemoveAll(scratch(3)),
	)
	if err != nil {
		a.t.Fatal(err)
	}
}

// held is what a kernel holds of the node: devices and ports.
func (a *agent) held(kernel string) string {
	a.t.Helper()
	for _, b := range a.get("bindings") {
		if str(dig(b, "metadata", "name")) == kernel {
			return fmt.Sprint(dig(b, "status", "allocations"), dig(b, "status", "ports"))
		}
	}
	return "nothing"
}

// B031: damaged recovery files neither stop agentd nor end kernels; what can be
// made again is.
func TestScratchesDamaged(t *testing.T) {
	a := newAgent(t, quick)
	file := a.applied("s", 3)
	kernels := a.kernels()
	before := a.ids(kernels)
	a.kill()
	a.damage(kernels)
	a.start()
	for _, name := range []string{"config/resource.txt", "config/environ.txt", "agentd.json"} {
		for _, k := range kernels {
			a.eventually(name+" of kernel "+k+" is mended", 10*time.Second, func() error {
				b, err := os.ReadFile(a.path("scratches", k, name))
				if err == nil && (len(b) < 20 || b[0] == 0) {
					err = fmt.Errorf("%q", b)
				}
				return err
			})
		}
	}
	if after := a.ids(kernels); !maps.Equal(after, before) {
		t.Errorf("containers %v, want %v", after, before)
	}
	a.mustBeTold(kernels, "preparing", "creating", "started")
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// B031, with the state lost as well: what cannot be known again is left alone,
// named, and removed when an operator says so.
func TestScratchesDamagedAndStateLost(t *testing.T) {
	a := newAgent(t, quick, with("agentd.sweep-grace", `"1s"`), with("agentd.stop-grace", `"1s"`))
	file := a.applied("s", 3)
	kernels := a.kernels()
	before := a.ids(kernels)
	a.kill()
	a.damage(kernels)
	if err := os.RemoveAll(a.path("state")); err != nil {
		t.Fatal(err)
	}
	a.start()
	text := a.node("Leftovers", true)
	for _, k := range kernels[2:] {
		if !strings.Contains(text, k) || !strings.Contains(text, "--sweep") {
			t.Errorf("the node's condition says %q; it does not name kernel %s and the way out", text, k)
		}
	}
	if now := a.kernels(); len(now) != 2 || slices.Contains(now, kernels[2]) || slices.Contains(now, kernels[3]) {
		t.Errorf("kernels %q, want %q", now, kernels[:2])
	}
	for _, k := range kernels[:2] {
		if got := a.must("exec", k, "--", "echo", "here"); got != "here" {
			t.Errorf("exec in kernel %s: %q", k, got)
		}
	}
	if after := a.ids(kernels); !maps.Equal(after, before) {
		t.Errorf("containers %v, want %v", after, before)
	}
	a.stop()
	if r := a.reconcile("--sweep"); r.code != 0 {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	for _, k := range kernels[2:] {
		if id := a.container(k); id != "" {
			t.Errorf("container %s of kernel %s is still there", id, k)
		}
	}
	a.ids(kernels[:2])
	a.start()
	a.node("StateComplete", true)
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// B040: strays that never ran or have ended go after the grace; one that runs
// is named first.
func TestStrays(t *testing.T) {
	a := newAgent(t, quick, with("agentd.sweep-grace", `"4s"`), with("agentd.stop-grace", `"1s"`))
	created := a.stray("00000000-0000-0000-0000-000000000001")
	exited := a.stray("00000000-0000-0000-0000-000000000002", "0")
	a.docker("start", exited)
	running := a.stray("00000000-0000-0000-0000-000000000003", "1000")
	a.docker("start", running)
	begun := time.Now()
	text := a.node("Leftovers", true)
	for _, id := range []string{created, exited, running} {
		if !there(id) && time.Since(begun) < 4*time.Second {
			t.Errorf("%s is gone within the grace", id)
		}
	}
	if !strings.Contains(text, "00000000-0000-0000-0000-00000000000") {
		t.Errorf("the condition names none: %q", text)
	}
	a.mustBeClean()
	if took := time.Since(begun); took < 4*time.Second {
		t.Errorf("gone after %s, want the grace of 4 s", took)
	}
	a.node("Leftovers", false)
}

// B082: ports of kernels outlive restarts and a change of the range.
func TestPortsAfterRestart(t *testing.T) {
	a := newAgent(t, portRange(20))
	files := []string{a.applied("one", 1)}
	a.stop()
	a.start()
	files = append(files, a.applied("two", 0))
	a.stop()
	a.ports = [2]int{a.ports[0] + 20, a.ports[0] + 39}
	a.writeConfig()
	a.start()
	files = append(files, a.applied("three", 0))
	seen := map[int]string{}
	for _, k := range a.kernels() {
		for _, p := range a.portsOf(k) {
			if other, ok := seen[p]; ok {
				t.Errorf("port %d is held by kernels %s and %s", p, k, other)
			}
			seen[p] = k
		}
	}
	if len(seen) != 8 {
		t.Errorf("ports %v, want 8", seen)
	}
	a.ids(a.kernels())
	for _, f := range files {
		a.must("delete", "-f", f)
	}
	a.mustBeClean()
}
