// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentd/test/e2e/engine"
)

// B001: starts that the engine refuses leave nothing, and the next one works.
func TestRefusedStarts(t *testing.T) {
	a, p := behindProxy(t, portRange(8))
	refuse := p.Add(engine.Rule{Method: post, Path: startContainer, Status: 500, Body: `{"message":"OCI runtime create failed: out of luck"}`})
	for n := range 5 {
		name := fmt.Sprintf("bad%d", n)
		file := a.session(name, 3)
		if r := a.run("apply", "-f", file); r.code != 3 || !strings.Contains(r.out+r.err, "out of luck") {
			t.Fatalf("exit %d, want 3 and the engine's words:\n%s%s", r.code, r.out, r.err)
		}
		a.must("delete", "-f", file)
	}
	a.mustBeClean()
	ends := map[string]int{}
	for _, e := range a.events() {
		if e.Type == "kernel_terminated" {
			ends[e.Kernel]++
			if e.Reason != "failed-to-create" {
				t.Errorf("kernel %s ended as %v", e.Kernel, e)
			}
		}
	}
	if len(ends) != 20 || slices.Max(slices.Collect(maps.Values(ends))) != 1 {
		t.Errorf("terminal events by kernel: %v, want one for each of 20", ends)
	}
	refuse.Remove()
	file := a.applied("good", 3)
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// B003: what is deleted while it is being created goes, with the reason of the deletion.
func TestDeletedWhileCreated(t *testing.T) {
	for _, rule := range []engine.Rule{
		{Method: post, Path: createContainer},
		{Method: post, Path: startContainer},
		{Method: "GET", Path: `^/images/.*/json`},
		{Method: post, Path: createNetwork},
	} {
		t.Run(rule.Path, func(t *testing.T) {
			t.Parallel()
			a, p := behindProxy(t, quick)
			rule.Delay = 2 * time.Second
			h := p.Add(rule)
			file := a.session("s", 1)
			a.must("apply", "--wait=false", "-f", file)
			a.eventually("the request is under way", 10*time.Second, func() error {
				if h.Applied() == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			kernels := a.kernels()
			a.must("delete", "-f", file)
			a.mustBeClean()
			for _, k := range kernels {
				if e := a.ended(k, time.Second); e.Reason != "user-requested" {
					t.Errorf("kernel %s ended as %v", k, e)
				}
			}
		})
	}
}

// B005: what the node cannot hold beside what it holds is refused at once, and reported once.
func TestNotEnoughLeft(t *testing.T) {
	a := newAgent(t)
	capacity, err := strconv.ParseInt(str(dig(a.get("nodes")[0], "status", "capacity", "mem")), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	sized := func(name string, mem int64) string {
		return a.file(name, strings.Replace(session(a.id+"-"+name, busybox, 0), "128m", fmt.Sprint(mem), 1))
	}
	first := sized("first", capacity/2+1)
	a.must("apply", "-f", first)
	second, begun := sized("second", capacity/2+1), time.Now()
	r := a.run("apply", "-f", second)
	if took := time.Since(begun); r.code != 3 || took > 2*time.Second {
		t.Errorf("exit %d after %s, want 3 within 2 s\n%s%s", r.code, took, r.out, r.err)
	}
	var ends []event
	for _, e := range a.events() {
		if e.Type == "kernel_terminated" {
			ends = append(ends, e)
		}
	}
	if len(ends) != 1 || ends[0].Reason != "failed-to-create" || !strings.Contains(ends[0].Message, "mem") {
		t.Errorf("ends %v, want one that names the slot", ends)
	}
	a.must("delete", "-f", first)
	a.mustBeClean()
}

// B015: limits of this host that are lower than the usual ones are kept, and told.
func TestLowLimits(t *testing.T) {
	a := newAgent(t, under("prlimit", "--nofile=4096:4096"))
	if text := a.node("LimitsClamped", true); !strings.Contains(text, "nofile is lowered to 4096") {
		t.Errorf("condition says %q", text)
	}
	file := a.applied("s", 0)
	k := a.kernel("main1")
	if got := a.docker("exec", a.container(k), "sh", "-c", "ulimit -Sn; ulimit -Hn"); got != "4096\n4096" {
		t.Errorf("limits in the container: %q", got)
	}
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// An engine that is down when agentd starts is waited for, and what it allows is asked then.
func TestStartsBeforeTheEngine(t *testing.T) {
	p := engine.NewProxy(t, engineSocket)
	p.Down()
	a := newAgent(t, onEngine(p.Socket()), quick)
	if text := a.node("EngineReachable", false); !strings.Contains(text, p.Socket()) {
		t.Errorf("condition says %q", text)
	}
	p.Up()
	a.node("EngineReachable", true)
	file := a.applied("s", 1)
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// B021: a container that the engine does not get stopped keeps nobody else
// waiting, and is not called ended while it runs.
func TestStuckStop(t *testing.T) {
	a, p := behindProxy(t, with("agentd.stop-grace", `"1s"`))
	const stuck = 5 // more than are created at a time
	file := a.applied("a", stuck-1)
	kernels := a.kernels()
	other := a.applied("b", 0)
	before := a.metric("go_goroutines")
	p.Forget()
	for _, k := range kernels {
		p.Add(engine.Rule{Method: post, Path: "^/containers/" + a.container(k) + "/(stop|kill)", Hold: true})
	}
	a.must("delete", "--wait=false", "-f", file)
	a.eventually("all stops are held", 10*time.Second, func() error {
		if n := p.Open(stopContainer); n < stuck {
			return fmt.Errorf("%d of %d", n, stuck)
		}
		return nil
	})
	begun := time.Now()
	a.must("delete", "-f", other)
	third := a.applied("c", 0)
	a.must("delete", "-f", third)
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("others took %s", took)
	}
	for _, k := range kernels {
		if there(a.container(k)) && len(a.ends(k)) > 0 {
			t.Errorf("kernel %s is reported ended while its container runs", k)
		}
	}
	a.mustBeClean()
	for _, k := range kernels {
		if e := a.ended(k, time.Second); e.Reason != "user-requested" {
			t.Errorf("kernel %s ended as %v", k, e)
		}
	}
	a.eventually("no goroutine is left behind", 10*time.Second, func() error {
		if after := a.metric("go_goroutines"); after > before+5 {
			return fmt.Errorf("%v goroutines, %v before", after, before)
		}
		return nil
	})
}

// B035: containers removed or stopped by somebody else are noticed without events.
func TestSomebodyElse(t *testing.T) {
	a, p := behindProxy(t, quick)
	file := a.applied("s", 2)
	kernels := a.kernels()
	p.Add(engine.Rule{Method: "GET", Path: "^/events", Blackhole: true})
	a.docker("rm", "-f", a.container(kernels[0]))
	a.docker("stop", "-t", "0", a.container(kernels[1]))
	if e := a.ended(kernels[0], 6*time.Second); e.Reason != "container-not-found" {
		t.Errorf("the removed one ended as %v", e)
	}
	if e := a.ended(kernels[1], 6*time.Second); e.Reason != "self-terminated" {
		t.Errorf("the stopped one ended as %v", e)
	}
	a.eventually("what the two had is released", 5*time.Second, func() error {
		if n, b := len(a.get("kernels")), len(a.get("bindings")); n != 1 || b != 1 {
			return fmt.Errorf("%d kernels, %d bindings", n, b)
		}
		return nil
	})
	a.ids(kernels[2:])
	a.must("delete", "-f", file)
	a.mustBeClean()
	for _, k := range kernels {
		a.ended(k, 0)
	}
}

// B038: an engine that says too little, or nothing, ends no kernel.
func TestWrongAnswersEndNothing(t *testing.T) {
	a, p := behindProxy(t, quick)
	file := a.applied("s", 2)
	kernels := a.kernels()
	before := a.ids(kernels)
	const list = `^/containers/json`
	inspect := fmt.Sprintf(`^/containers/(%s|[^/]*%s)/json`, a.container(kernels[0]), kernels[0])
	nothing := func([]byte) []byte { return []byte("[]") }
	half := func(b []byte) []byte {
		var all []json.RawMessage
		if err := json.Unmarshal(b, &all); err != nil {
			return b
		}
		out, err := json.Marshal(all[:len(all)/2])
		if err != nil {
			return b
		}
		return out
	}
	fail := engine.Rule{Status: 500, Body: `{"message":"no"}`}
	for name, rules := range map[string][]engine.Rule{
		"an empty list":             {{Path: list, Rewrite: nothing}},
		"half of the list":          {{Path: list, Rewrite: half}},
		"500 to the list":           {{Path: list, Status: fail.Status, Body: fail.Body}},
		"a list that never comes":   {{Path: list, Hold: true}},
		"500 to an inspect":         {{Path: list, Rewrite: nothing}, {Path: inspect, Status: fail.Status, Body: fail.Body}},
		"an inspect without answer": {{Path: list, Rewrite: nothing}, {Path: inspect, Hold: true}},
		"one wrong 404":             {{Path: list, Rewrite: nothing, Times: 1}, {Path: inspect, Status: 404, Body: `{"message":"No such container"}`, Times: 1}},
	} {
		p.Forget()
		var last *engine.Handle
		for _, r := range rules {
			r.Method = "GET"
			last = p.Add(r)
		}
		want := 3
		if r := rules[len(rules)-1]; r.Hold || r.Times == 1 {
			want = 1
		}
		a.eventually(name, 15*time.Second, func() error {
			if n := last.Applied(); n < want {
				return fmt.Errorf("applied %d times", n)
			}
			return nil
		})
		p.Cut(list + "|" + inspect)
		p.Clear()
		p.Forget()
		a.eventually("a sound listing after "+name, 10*time.Second, func() error {
			if n := p.Requests("GET", list); n < 3 {
				return fmt.Errorf("%d listings", n)
			}
			return nil
		})
		if n := p.Requests(post, stopContainer) + p.Requests(del, removeContainer); n > 0 {
			t.Errorf("%s: %d containers were stopped or removed", name, n)
		}
	}
	if after := a.ids(kernels); !maps.Equal(after, before) {
		t.Errorf("containers %v, want %v", after, before)
	}
	a.mustBeTold(kernels, "preparing", "creating", "started")
	a.node("EngineReachable", true)
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// B106: what ended while there were no events is reported with its exit code.
func TestLostEvents(t *testing.T) {
	a, p := behindProxy(t, quick)
	text := session(a.id, busybox, 2) + "  command: [sh, -c, 'while [ ! -e /home/work/go ]; do sleep 0.1; done; exit 7']\n"
	file := a.apply("s", text)
	kernels := a.kernels()
	p.Forget()
	refuse := p.Add(engine.Rule{Method: "GET", Path: "^/events", Reset: true})
	p.Cut("^/events")
	a.docker("kill", a.container(kernels[0]))
	a.docker("kill", a.container(kernels[1]))
	a.docker("exec", a.container(kernels[2]), "touch", "/home/work/go")
	for i, want := range []string{"137", "137", "7"} {
		if e := a.ended(kernels[i], 4*time.Second); e.Exit != want || e.Reason != "self-terminated" {
			t.Errorf("kernel %d ended as %v, want exit code %s", i, e, want)
		}
	}
	tries := func(n int) {
		a.eventually("it is asked for events again", 10*time.Second, func() error {
			if refuse.Applied() < n {
				return fmt.Errorf("%d tries", refuse.Applied())
			}
			return nil
		})
	}
	tries(4) // how far apart they are is the observer's own test, in simulated time
	refuse.Remove()
	a.node("EngineReachable", true)
	_ = a.run("delete", "-f", file)
	a.mustBeClean()
	for _, k := range kernels {
		a.ended(k, 0)
	}
}
