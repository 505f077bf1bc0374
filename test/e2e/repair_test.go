// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"sigs.k8s.io/yaml"

	"agentd/test/e2e/engine"
)

// repair is the report of "agentd reconcile --once" as data.
type repair struct {
	DryRun bool         `json:"dryRun"`
	Items  []repairItem `json:"items"`
	Wrong  []string     `json:"wrong"`
}

type repairItem struct{ Sign, Kind, Name, Action, Why string }

// repaired checks that a repair does what its dry run says, and returns it.
// code is what the repair exits with.
func (a *agent) repaired(code int, flags ...string) repair {
	a.t.Helper()
	node := a.leftovers()
	plan := a.reconcile(append(slices.Clone(flags), "--dry-run", "-o", "json")...)
	if plan.code != 2 {
		a.t.Errorf("dry run: exit %d, want 2\n%s%s", plan.code, plan.out, plan.err)
	}
	if now := a.leftovers(); !slices.Equal(now, node) {
		a.t.Errorf("the dry run changed the node from %q to %q", node, now)
	}
	done := a.reconcile(append(slices.Clone(flags), "-o", "json")...)
	if done.code != code {
		a.t.Errorf("repair: exit %d, want %d\n%s%s", done.code, code, done.out, done.err)
	}
	want, got := decode[repair](a.t, plan.out), decode[repair](a.t, done.out)
	if !want.DryRun || got.DryRun {
		a.t.Error("the reports do not say which is the dry run")
	}
	if !reflect.DeepEqual(want.Items, got.Items) {
		a.t.Errorf("planned:\n%s\ndone:\n%s", plan.out, done.out)
	}
	again := a.reconcile(append(slices.Clone(flags), "--dry-run", "-o", "json")...)
	rest := decode[repair](a.t, again.out)
	if again.code != code || len(rest.Items) > 0 {
		a.t.Errorf("a second dry run: exit %d, want %d and nothing to do\n%s%s", again.code, code, again.out, again.err)
	}
	return got
}

// has tells whether the report has an item whose action contains the words.
func (r repair) has(kind, name, action string) bool {
	return slices.ContainsFunc(r.Items, func(i repairItem) bool {
		return i.Kind == kind && strings.HasSuffix(i.Name, name) && strings.Contains(i.Action, action)
	})
}

func (a *agent) mustHave(r repair, kind, name, action string) {
	a.t.Helper()
	if !r.has(kind, name, action) {
		a.t.Errorf("no item %s %s with %q in %+v", kind, name, action, r.Items)
	}
}

// TestRepair: what was damaged while agentd was down is repaired once, as planned.
func TestRepair(t *testing.T) {
	const stray = "00000000-0000-0000-0000-00000000000"
	for name, c := range map[string]struct {
		damage func(t *testing.T, a *agent, kernels []string)
		check  func(a *agent, kernels []string, r repair)
		ended  int // kernels that end
	}{
		"a container removed": {
			damage: func(_ *testing.T, a *agent, k []string) { a.docker("rm", "-f", a.container(k[0])) },
			check: func(a *agent, k []string, r repair) {
				a.mustHave(r, "kernel", k[0], "ends: container-not-found")
				a.mustHave(r, "scratch", k[0], "remove")
			}, ended: 1,
		},
		"a container stopped": {
			damage: func(_ *testing.T, a *agent, k []string) { a.docker("kill", a.container(k[0])) },
			check: func(a *agent, k []string, r repair) {
				a.mustHave(r, "kernel", k[0], "ends: self-terminated (exit 137)")
				a.mustHave(r, "container", k[0], "remove")
			}, ended: 1,
		},
		"all containers removed": {
			damage: func(_ *testing.T, a *agent, k []string) {
				for _, k := range k {
					a.docker("rm", "-f", a.container(k))
				}
			},
			check: func(a *agent, k []string, r repair) { a.mustHave(r, "network", "", "remove") }, ended: 3,
		},
		"the network removed": {
			damage: func(_ *testing.T, a *agent, k []string) {
				net := a.docker("network", "ls", "--filter", "label=ai.backend.agent-id="+a.id, "--format", "{{.Name}}")
				for _, k := range k {
					a.docker("network", "disconnect", "-f", net, a.container(k))
				}
				a.docker("network", "rm", net)
			},
			check: func(a *agent, _ []string, r repair) { a.mustHave(r, "network", "", "create") },
		},
		"strays": {
			damage: func(_ *testing.T, a *agent, _ []string) {
				a.stray(stray + "1")
				a.docker("start", a.stray(stray+"2", "0"))
				a.docker("start", a.stray(stray+"3", "1000"))
			},
			check: func(a *agent, _ []string, r repair) {
				a.mustHave(r, "container", stray+"1", "remove")
				a.mustHave(r, "container", stray+"2", "remove")
				a.mustHave(r, "container", stray+"3", "stop, remove")
			},
		},
		"scratch files edited and deleted": {
			damage: func(t *testing.T, a *agent, k []string) {
				err := errors.Join(
					os.WriteFile(a.path("scratches", k[0], "config", "environ.txt"), []byte("A=B\n"), 0o600),
					os.Remove(a.path("scratches", k[1], "config", "ssh", "id_cluster")),
					os.Chmod(a.path("scratches", k[2], "config", "ssh"), 0o777),
				)
				if err != nil {
					t.Fatal(err)
				}
			},
			check: func(a *agent, k []string, r repair) {
				a.mustHave(r, "scratch", k[0], "rewrite config/environ.txt")
				a.mustHave(r, "scratch", k[1], "rewrite config/ssh/id_cluster")
				a.mustHave(r, "scratch", k[2], "mode")
			},
		},
		"a scratch removed": {
			damage: func(t *testing.T, a *agent, k []string) {
				if err := os.RemoveAll(a.path("scratches", k[0])); err != nil {
					t.Fatal(err)
				}
			},
			check: func(a *agent, k []string, r repair) { a.mustHave(r, "scratch", k[0], "create") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, with("agentd.stop-grace", `"1s"`))
			file := a.applied("s", 2)
			kernels := a.kernels()
			a.stop()
			c.damage(t, a, kernels)
			c.check(a, kernels, a.repaired(0))
			a.start()
			for i, k := range kernels {
				if i < c.ended {
					a.ended(k, 0)
				} else if ends := a.ends(k); len(ends) > 0 {
					t.Errorf("kernel %s ended: %v", k, ends)
				}
			}
			a.ids(kernels[c.ended:])
			if c.ended < len(kernels) {
				a.must("delete", "-f", file)
			}
			a.mustBeClean()
		})
	}
}

// TestRepairEndsWhatWasEnding: a deletion that agentd was killed in is finished.
func TestRepairEndsWhatWasEnding(t *testing.T) {
	a, p := behindProxy(t)
	file := a.applied("s", 1)
	kernels := a.kernels()
	stops := p.Add(engine.Rule{Method: post, Path: stopContainer, Hold: true})
	a.must("delete", "--wait=false", "-f", file)
	a.eventually("the stops", 10*time.Second, func() error {
		if n := p.Open(stopContainer); n < len(kernels) {
			return fmt.Errorf("%d are under way", n)
		}
		return nil
	})
	a.kill()
	stops.Remove()
	r := a.repaired(0)
	for _, k := range kernels {
		a.mustHave(r, "kernel", k, "ends: user-requested")
		a.mustHave(r, "container", k, "remove")
		a.mustHave(r, "scratch", k, "remove")
	}
	a.start()
	a.mustBeClean()
	for _, k := range kernels {
		a.ended(k, 0)
	}
}

// TestRepairCheckpoint: a checkpoint that is gone or of no use costs nothing
// that can be known from the node.
func TestRepairCheckpoint(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"deleted":   os.Remove,
		"truncated": func(path string) error { return os.Truncate(path, 5000) },
		"garbage":   func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("garbage", 9999)), 0o600) },
		"of another schema": func(path string) error {
			db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second})
			if err != nil {
				return err
			}
			err = db.Update(func(tx *bolt.Tx) error {
				return tx.Bucket([]byte("agentd.schema")).Put([]byte("version"), []byte("0"))
			})
			return errors.Join(err, db.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, with("agentd.stop-grace", `"1s"`))
			file := a.applied("s", 1)
			kernels := a.kernels()
			before := a.ids(kernels)
			a.stop()
			if err := spoil(a.path("state", "checkpoint.db")); err != nil {
				t.Fatal(err)
			}
			lost := a.stray("00000000-0000-0000-0000-000000000001", "1000")
			a.docker("start", lost)
			// Nothing of the kernels has to be done, and the stranger is not removed unasked.
			for _, flags := range [][]string{{"--dry-run"}, nil} {
				r := a.reconcile(append(flags, "-o", "json")...)
				if rep := decode[repair](t, r.out); r.code != 3 || len(rep.Items) > 0 || !strings.Contains(strings.Join(rep.Wrong, "\n"), "--sweep") {
					t.Errorf("%v: exit %d, want 3 and the way out\n%s%s", flags, r.code, r.out, r.err)
				}
			}
			if !there(lost) {
				t.Fatal("the stranger was removed")
			}
			r := a.repaired(0, "--sweep")
			a.mustHave(r, "container", "1", "stop, remove")
			a.start()
			a.node("StateComplete", true)
			for k, id := range a.ids(kernels) {
				if before[k] != id {
					t.Errorf("kernel %s: %s, want %s", k, id, before[k])
				}
				if ends := a.ends(k); len(ends) > 0 {
					t.Errorf("kernel %s ended: %v", k, ends)
				}
			}
			a.must("delete", "-f", file)
			a.mustBeClean()
		})
	}
}

// TestRepairRefuses: where a repair cannot work it says so, and how it could.
func TestRepairRefuses(t *testing.T) {
	a := newAgent(t)
	file := a.applied("s", 0)
	for _, flags := range [][]string{nil, {"--dry-run"}} {
		if r := a.reconcile(flags...); r.code != 1 || !strings.Contains(r.err, "stop") {
			t.Errorf("beside the daemon: exit %d, want 1 and the way out\n%s%s", r.code, r.out, r.err)
		}
	}
	a.ids([]string{a.kernel("main1")})
	a.stop()
	if r := a.run("reconcile", "--config", a.path("agent.toml")); r.code != 1 || !strings.Contains(r.err, "--once") {
		t.Errorf("without --once: exit %d, want 1\n%s", r.code, r.err)
	}
	if r := a.reconcile("-o", "xml"); r.code != 1 || !strings.Contains(r.err, "yaml") {
		t.Errorf("unknown output: exit %d, want 1\n%s", r.code, r.err)
	}
	if r := a.reconcile("--dryrun"); r.code != 1 || !strings.Contains(r.err, "dryrun") {
		t.Errorf("unknown flag: exit %d, want 1\n%s", r.code, r.err)
	}
	r := a.reconcile("-o", "yaml")
	var rep repair
	if err := yaml.Unmarshal([]byte(r.out), &rep); err != nil || r.code != 0 || len(rep.Items) != 0 {
		t.Errorf("yaml: exit %d, %v\n%s%s", r.code, err, r.out, r.err)
	}
	if r := a.reconcile(); r.code != 0 || !strings.Contains(r.out, "0 to create, 0 to change, 0 to remove, 0 to report") {
		t.Errorf("for people: exit %d\n%s%s", r.code, r.out, r.err)
	}
	a.host = "unix://" + a.path("no.sock")
	if r := a.reconcile("--timeout", "2s"); r.code != 1 || !strings.Contains(r.err, "no.sock") {
		t.Errorf("without an engine: exit %d, want 1\n%s%s", r.code, r.out, r.err)
	}
	a.host = ""
	a.start()
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// TestRepairRunsOutOfTime: what did not get ready in time is named.
func TestRepairRunsOutOfTime(t *testing.T) {
	a, p := behindProxy(t)
	file := a.session("s", 0)
	reached, resume := freeze(p, moment{method: post, path: createContainer})
	a.must("apply", "--wait=false", "-f", file)
	a.await("the creation", reached)
	a.kill()
	resume()
	_, resume = freeze(p, moment{method: post, path: startContainer})
	begun := time.Now()
	r := a.reconcile("--timeout", "3s", "-o", "json")
	resume()
	rep := decode[repair](t, r.out)
	if r.code != 3 || !strings.Contains(strings.Join(rep.Wrong, "\n"), "time ran out") || time.Since(begun) > 10*time.Second {
		t.Errorf("exit %d after %s, want 3\n%s%s", r.code, time.Since(begun), r.out, r.err)
	}
	a.start()
	a.must("apply", "-f", file)
	a.must("delete", "-f", file)
	a.mustBeClean()
}
