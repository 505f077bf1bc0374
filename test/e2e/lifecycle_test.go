// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestApplyAgain: the same file changes nothing, another one under the same name is refused, and both say so.
func TestApplyAgain(t *testing.T) {
	t.Parallel()
	a := newAgent(t, portRange(6)) // the ports of three kernels, to the last one
	text := session(a.name("three"), busybox, 2, "environ: {GREETING: hello}")
	file := a.file("same", text)

	// Five at once are one (B002).
	results := a.together(5, func(int) result { return a.run("apply", "-f", file) })
	for _, r := range results {
		a.want(r, 0, "", "")
	}
	before := a.state()
	if got := len(before.containers); got != 3 {
		t.Errorf("%d containers after five equal applies, want 3: %q", got, before.containers)
	}
	for i, count := range before.started {
		if count != 1 {
			t.Errorf("kernel %s was started %d times", i, count)
		}
	}
	a.want(a.run("apply", "-f", file), 0, "", "")
	a.unchanged(before, "the same file again")

	for what, other := range map[string]string{
		"image":   strings.Replace(text, busybox, musl, 1),
		"environ": strings.Replace(text, "hello", "goodbye", 1),
		"count":   strings.Replace(text, "count: 2", "count: 1", 1),
		"slots":   strings.Replace(text, "128m", "64m", 1),
	} {
		r := a.run("apply", "-f", a.file("other", other))
		a.want(r, 1, "", a.name("three"))
		if !strings.Contains(r.err, "delete") {
			t.Errorf("another %s: the error does not say what to do: %s", what, r.err)
		}
		a.unchanged(before, "another "+what)
	}
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// TestLeftOfCrash: what an attempt left that nobody remembers is replaced, and does not disturb the next one (B002).
func TestLeftOfCrash(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	file := a.apply("three", session(a.name("three"), busybox, 0))
	id := a.kernel("main1")
	name := strings.TrimPrefix(a.inspect(id, "{{.Name}}"), "/")
	a.must("delete", "-f", file)
	a.mustBeClean()

	for _, dir := range []string{"config", "work/.ssh"} {
		if err := os.MkdirAll(a.path("scratches", id, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(a.path("scratches", id, "config", "environ.txt"), []byte("OLD=1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	a.docker("create", "--name", name, "--label", "ai.backend.kernel-id="+id, "--label", "ai.backend.agent-id="+a.id, "--label", "ai.backend.owner="+a.id, busybox, "true")
	a.must("apply", "-f", file)
	if got := a.containers(); len(got) != 1 {
		t.Errorf("containers %q, want one", got)
	}
	if got := a.sh(a.at("main1"), "hostname; grep -c OLD /home/config/environ.txt || true; stat -c %a /home/config"); got != "main1\n0\n750" {
		t.Errorf("inside: %q", got)
	}
	a.must("delete", "-f", file)
	a.mustBeClean()

	a.must("delete", "-f", file)
	a.mustBeClean()
}

// TestOthersThings: what somebody else has under a name that agentd needs stays theirs; the error names it, and nothing is stuck.
func TestOthersThings(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	file := a.apply("three", session(a.name("three"), busybox, 1))
	id := a.kernel("main1")
	container := strings.TrimPrefix(a.inspect(id, "{{.Name}}"), "/")
	network := a.docker("network", "ls", "--filter", "label=ai.backend.agent-id="+a.id, "--format", "{{.Name}}")
	scratch := a.path("scratches", id)
	a.must("delete", "-f", file)
	a.mustBeClean()
	for _, c := range []struct {
		what         string
		make, remove func()
	}{
		{container, func() { a.docker("create", "--name", container, busybox, "true") }, func() { a.docker("rm", container) }},
		{network, func() { a.docker("network", "create", network) }, func() { a.docker("network", "rm", network) }},
		{scratch, func() {
			if err := errors.Join(os.Mkdir(scratch, 0o700), os.WriteFile(scratch+"/.agentd", []byte("i-other\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}, func() {
			if err := errors.Join(os.Remove(scratch+"/.agentd"), os.Remove(scratch)); err != nil {
				t.Errorf("their directory: %v", err)
			}
		}},
	} {
		c.make()
		r := a.run("apply", "-f", file, "--timeout", "20s")
		a.want(r, 3, "", c.what)
		if !strings.Contains(r.err, "remove") {
			t.Errorf("the error does not say what to do: %s", r.err)
		}
		a.want(a.run("delete", "-f", file, "--timeout", "20s"), 0, "", "")
		c.remove() // it is still there
		a.mustBeClean()
	}
	a.must("apply", "-f", file)
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// state is what a refused command must leave as it is.
type state struct {
	containers []string
	started    map[string]int
	events     int
}

func (a *agent) state() state {
	a.t.Helper()
	s := state{started: map[string]int{}}
	s.containers = lines(a.docker("ps", "-aq", "--no-trunc", "--filter", "label=ai.backend.agent-id="+a.id))
	slices.Sort(s.containers)
	for _, e := range a.events() {
		s.events++
		if e.Type == "kernel_started" {
			s.started[e.Kernel]++
		}
	}
	return s
}

func (a *agent) unchanged(before state, after string) {
	a.t.Helper()
	if now := a.state(); fmt.Sprint(now) != fmt.Sprint(before) {
		a.t.Errorf("%s changed the node: %+v, before: %+v", after, now, before)
	}
}

// together runs something several times at once.
func (a *agent) together(n int, do func(int) result) []result {
	out := make([]result, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { out[i] = do(i) })
	}
	wg.Wait()
	return out
}

// TestDeleteTwice: what is gone may be deleted again by its file, and is an error by its name (B017, B018).
func TestDeleteTwice(t *testing.T) {
	t.Parallel()
	a := newAgent(t, portRange(6))
	text := session(a.name("three"), busybox, 2)
	file := a.apply("three", text)
	ids := map[string]string{}
	for _, host := range hosts {
		ids[host] = a.kernel(host)
	}

	// One kernel alone; the others stay.
	a.want(a.run("delete", "kernel", a.at("sub2")), 0, "", "")
	a.oneEnd(ids["sub2"], "user-requested", "")
	if got := a.sh(a.at("main1"), "ssh sub1 hostname"); got != "sub1" {
		t.Errorf("after the end of sub2, sub1 answers %q", got)
	}
	a.want(a.run("delete", "kernel", a.at("sub2")), 1, "", "sub2")

	// One whose container was removed by hand a moment ago: it is gone either way, and told once (B018).
	a.docker("rm", "-f", a.container(ids["sub1"]))
	if r := a.run("delete", "kernel", a.at("sub1")); r.code > 1 || r.code == 1 && !strings.Contains(r.err, a.at("sub1")) {
		t.Errorf("delete of a kernel whose container is gone: %+v", r)
	}
	a.eventually("the end of sub1 is told", 10*time.Second, func() error {
		return unless(len(a.ends(ids["sub1"])) > 0, "no end")
	})

	// Five deletions at once, and somebody kills a container beside them.
	results := a.together(6, func(i int) result {
		if i == 5 {
			_ = exec.Command("docker", "kill", a.container(ids["main1"])).Run() // too late perhaps
			return result{}
		}
		return a.run("delete", "-f", file)
	})
	for _, r := range results {
		a.want(r, 0, "", "")
	}
	for _, host := range hosts {
		if ends := a.ends(ids[host]); len(ends) != 1 || !slices.Contains([]string{"user-requested", "self-terminated", "container-not-found"}, ends[0].Reason) {
			t.Errorf("%s: ends %+v, want one", host, ends)
		}
	}
	a.mustBeClean()
	a.want(a.run("delete", "-f", file), 0, "does not exist", "")
	a.want(a.run("delete", "session", a.name("three")), 1, "", a.name("three"))
	a.want(a.run("delete", "session", "nothing-like-this"), 1, "", `"nothing-like-this"`)
	a.want(a.run("delete", "kernel", "nothing/main1"), 1, "", `"nothing/main1"`)

	// The range has exactly their ports, so they fit only if all came back once.
	a.apply("three", text)
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// TestDeleteDuringCreation: whenever the deletion comes, the creation is undone, and reported once (W-49).
func TestDeleteDuringCreation(t *testing.T) {
	t.Parallel()
	a := newAgent(t, portRange(6))
	text := session(a.name("three"), busybox, 2, "bootstrap: |\n  if [ $BACKENDAI_CLUSTER_HOST = sub1 ]; then sleep 1000; fi")
	file := a.file("three", text)
	scratches := func() int {
		entries, _ := os.ReadDir(a.path("scratches"))
		return len(entries)
	}
	state := func(state string) func() bool {
		return func() bool {
			return strings.Contains(strings.Join(a.containers(), "\n"), " "+state)
		}
	}
	for _, moment := range []struct {
		name string
		come func() bool
	}{
		{"at once", func() bool { return true }},
		{"when the network is there", func() bool {
			return a.docker("network", "ls", "-q", "--filter", "label=ai.backend.agent-id="+a.id) != ""
		}},
		{"when a scratch is there", func() bool { return scratches() > 0 }},
		{"when a container is there", func() bool { return len(a.containers()) > 0 }},
		{"when a container runs", state("running")},
		{"when two kernels are ready", func() bool {
			return strings.Count(a.must("get", "kernels"), "Running") == 2
		}},
	} {
		told := len(a.events())
		a.must("apply", "-f", file, "--wait=false")
		var ids []string
		for _, k := range a.get("kernels") {
			ids = append(ids, str(dig(k, "metadata", "name")))
		}
		if len(ids) != 3 {
			t.Fatalf("%s: %d kernels", moment.name, len(ids))
		}
		deadline := time.Now().Add(30 * time.Second)
		for !moment.come() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: it never came", moment.name)
			}
		}
		begin := time.Now()
		a.must("delete", "-f", file)
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("%s: the deletion took %s", moment.name, took)
		}
		a.mustBeClean()
		for _, id := range ids {
			ends := 0
			for _, e := range a.events()[told:] {
				if e.Kernel == id && e.Type == "kernel_terminated" {
					ends++
					if e.Reason != "user-requested" {
						t.Errorf("%s: kernel %s ended with %s: %s", moment.name, id, e.Reason, e.Message)
					}
				}
			}
			if ends != 1 {
				t.Errorf("%s: kernel %s ended %d times", moment.name, id, ends)
			}
		}
	}
}

// TestFailingKernel: one kernel of a session that cannot start is told as such, and leaves nothing; the others stay (B014).
func TestFailingKernel(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	text := strings.Replace(session(a.name("three"), busybox, 0),
		"    - {role: main}\n", "    - {role: main}\n    - {role: sub, image: agentd.local/not-there:1, pull: none}\n    - {role: third}\n", 1)
	file := a.file("three", text)
	r := a.run("apply", "-f", file)
	a.want(r, 3, "", "agentd.local/not-there:1")
	if got := a.containers(); len(got) != 2 {
		t.Errorf("containers %q, want those of main1 and third1", got)
	}
	if got := a.sh(a.at("main1"), "ssh third1 hostname"); got != "third1" {
		t.Errorf("third1 answers %q", got)
	}
	failed := 0
	for _, e := range a.events() {
		if e.Type == "kernel_terminated" {
			failed++
			if e.Reason != "failed-to-create" || !strings.Contains(e.Message, "agentd.local/not-there:1") {
				t.Errorf("the failed kernel ends with %+v", e)
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d kernels ended, want one", failed)
	}
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// TestOwnEnds: kernels that end by themselves, or by somebody's hand, are told once, with reason and exit code, and leave nothing.
func TestOwnEnds(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	file := a.apply("three", session(a.name("three"), busybox, 6))
	id := map[string]string{}
	for _, k := range a.get("kernels") {
		id[str(dig(k, "spec", "hostname"))] = str(dig(k, "metadata", "name"))
	}
	a.in(a.at("sub6"), "sh", "-c", "kill -9 -1")    // the user's broad kill hits the runner as well
	a.in(a.at("sub1"), "sh", "-c", "kill -TERM -1") // the runner is the user's process, and a stop signal a normal end
	a.docker("kill", a.container(id["sub2"]))
	a.docker("rm", "-f", a.container(id["sub3"]))
	a.docker("stop", "-t", "5", a.container(id["sub4"]))
	process(t, a.inspect(id["sub5"], "{{.State.Pid}}"))
	for host, exit := range map[string]string{"sub1": "0", "sub2": "137", "sub3": "", "sub4": "", "sub5": "137", "sub6": "137"} {
		a.eventually(host+" is told to have ended", 20*time.Second, func() error {
			if len(a.ends(id[host])) == 0 {
				return fmt.Errorf("no end among %+v", a.events())
			}
			return nil
		})
		reason := "self-terminated"
		if host == "sub3" && a.ends(id[host])[0].Reason == "container-not-found" {
			reason = "container-not-found" // it was gone before anybody could ask for its exit code
		}
		a.oneEnd(id[host], reason, exit)
		if exit == "137" && !strings.Contains(a.ends(id[host])[0].Message, "signal 9") {
			t.Errorf("%s: the message does not name the signal: %+v", host, a.ends(id[host]))
		}
	}
	if got := a.containers(); len(got) != 1 {
		t.Errorf("containers %q, want that of main1", got)
	}
	a.must("delete", "-f", file)
	a.oneEnd(id["main1"], "user-requested", "")
	for host := range id {
		if ends := a.ends(id[host]); len(ends) != 1 {
			t.Errorf("%s: ends %+v, want one", host, ends)
		}
	}
	a.mustBeClean()
}
