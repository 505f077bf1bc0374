// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBadFiles: each mistake in a session file is an error with line and name, before anything is done.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	good := session(a.name("three"), busybox, 1)
	replace := func(old, by string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in the file", old)
		}
		return strings.Replace(good, old, by, 1)
	}
	name := "name: " + a.name("three")
	for _, c := range []struct {
		what, text string
		says       []string
	}{
		{"unknown field", replace("  image:", "  imag: x\n  image:"), []string{":5:", "imag"}},
		{"unknown field of a role", replace("{role: main}", "{role: main, cpus: 3}"), []string{":8:", "cpus"}},
		{"list for text", replace("image: "+busybox, "image: [a, b]"), []string{":5:", "image"}},
		{"text for list", good + "  command: sleep 10\n", []string{":10:", "command"}},
		{"text for number", replace("count: 1", "count: many"), []string{":9:", "count"}},
		{"list for slots", replace("{cpu: \"1\", mem: 128m}", "[1, 2]"), []string{":6:", "slots"}},
		{"text for replicas", "apiVersion: agentd/v1\nkind: ClusterSession\nmetadata: {name: x}\nspec: {image: y, replicas: three}\n", []string{":4:", "replicas"}},
		{"other kind", replace("ClusterSession", "Pod"), []string{":2:", "kind", "ClusterSession"}},
		{"other version", replace("agentd/v1", "v2"), []string{":1:", "agentd/v1"}},
		{"not YAML", "\tapiVersion: {", []string{"YAML"}},
		{"empty", "", []string{"no session"}},
		{"a number", "42\n", []string{":1:"}},
		{"the same twice", good + "---\n" + good, []string{"twice", a.name("three")}},
		{"huge", good + "#" + strings.Repeat("x", 2<<20), []string{"larger than", "bytes"}},
		{"aliases", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c]\n", []string{":1:"}},
		{"no image", replace("  image: "+busybox+"\n", ""), []string{"image", "missing"}},
		{"image with blanks", replace(busybox, `"a b"`), []string{"image", "a b"}},
		{"name with slash", replace(name, "name: a/b"), []string{":3:", "name", "a/b"}},
		{"name upwards", replace(name, "name: ../../etc"), []string{":3:", "name", "../../etc"}},
		{"name with dots", replace(name, "name: a..b"), []string{":3:", "a..b"}},
		{"name with control character", replace(name, `name: "a\u0007b"`), []string{":3:", `a\ab`}},
		{"name with newline", replace(name, `name: "a\nb"`), []string{":3:", `a\nb`}},
		{"long name", replace(name, "name: "+strings.Repeat("n", 300)), []string{":3:", "128"}},
		{"ID that is none", replace(name, "name: x, id: ../x"), []string{":3:", "UUID", "../x"}},
		{"role with slash", replace("role: sub", `role: "../sub"`), []string{"../sub"}},
		{"role with control character", replace("role: sub", `role: "s\u001bub"`), []string{`s\x1bub`}},
		{"role like a host", replace("role: sub", "role: sub1"), []string{"sub1"}},
		{"duplicate hosts", replace("role: sub", "role: main"), []string{":9:", "main", "twice"}},
		{"no main", replace("role: main", "role: boss"), []string{"main"}},
		{"no kernels", replace("count: 1", "count: 0"), []string{":9:", "count"}},
		{"too many", replace("count: 1", "count: 100000"), []string{":9:", "512"}},
		{"unknown slot", replace("mem:", "cuda.shares: 1, mem:"), []string{"cuda.shares"}},
		{"impossible slot", replace("mem:", "../x: 1, mem:"), []string{"../x"}},
		{"negative slot", replace(`cpu: "1"`, "cpu: -1"), []string{":6:", "cpu", "-1", "negative"}},
		{"no amount", replace("128m", "plenty"), []string{":6:", "mem", "plenty"}},
		{"endless amount", replace("128m", "inf"), []string{":6:", "mem", "inf"}},
		{"too many CPUs", replace(`cpu: "1"`, `cpu: "5000"`), []string{"cpu", "10000", "this node has"}},
		{"too much memory", replace("128m", "900t"), []string{"mem", "this node has"}},
		{"negative shared memory", good + "  shm: -5\n", []string{"shm", "-5"}},
		{"environment with equals", good + "  environ: {\"A=B\": x}\n", []string{"A=B"}},
		{"port that is none", good + "  preopenPorts: [70000]\n", []string{"preopenPorts", "70000"}},
		{"port that is taken", good + "  preopenPorts: [2200]\n", []string{"preopenPorts", "2200"}},
		{"dotfile outside", good + "  dotfiles: [{path: ../../etc/passwd, data: x}]\n", []string{"../../etc/passwd"}},
		{"dotfile mode", good + "  dotfiles: [{path: .x, data: x, perm: rw}]\n", []string{":10:", "perm", "rw"}},
		{"network mode", good + "  network: {mode: magic}\n", []string{":10:", "magic", "bridge"}},
		{"network upwards", good + "  network: {mode: overlay, name: ../x}\n", []string{":10:", "../x"}},
		{"owner", good + "  uid: -7\n", []string{"uid", "-7"}},
		{"pull", good + "  pull: always\n", []string{":10:", "always", "none"}},
	} {
		r := a.run("apply", "-f", a.file("bad", c.text))
		for _, says := range append(c.says, "agentd: ") {
			if r.code != 1 || r.out != "" || !strings.Contains(r.err, says) {
				t.Errorf("%s: exit %d, %q; want exit 1 and %q", c.what, r.code, r.err, says)
				break
			}
		}
		if strings.ContainsAny(r.err, "\a\x1b") || strings.Contains(r.err, "panic") {
			t.Errorf("%s: the error itself is %q", c.what, r.err)
		}
	}
	a.want(a.run("apply", "-f", "no-such-file.yaml"), 1, "", "no-such-file.yaml")
	a.want(a.run("apply", "-f", a.dir), 1, "", a.dir)
	a.want(a.run("apply"), 2, "", "-f")
	if s := a.state(); s.events > 0 || len(s.containers) > 0 || len(a.get("kernels"))+len(a.get("clustersessions"))+len(a.get("images")) > 0 {
		t.Errorf("bad files left something: %+v", s)
	}
	if left := a.leftovers(); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// TestMissingImage: an image that is not there ends the kernel at once, with its name and the way out.
func TestMissingImage(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	for _, c := range []struct{ image, pull, says string }{
		{"agentd.local/not-there:1", "none", "docker load"},
		{"127.0.0.1:1/nobody/nothing:1", "tag", "connection refused"},
		{"agentd.local/UPPER:1", "none", "agentd.local/UPPER:1"},
	} {
		file := a.file("three", session(a.name("three"), c.image, 0, "pull: "+c.pull))
		r := a.run("apply", "-f", file, "--timeout", "30s")
		if r.code == 0 || r.code == 2 || !strings.Contains(r.err, c.image) || !strings.Contains(r.err, c.says) || strings.Contains(r.err, "longer than") {
			t.Errorf("%s with pull %s: %+v", c.image, c.pull, r)
		}
		a.must("delete", "-f", file)
		a.mustBeClean()
	}
}

// TestPortsInUse: ports that other programs have are passed over; without any left, the error names the range.
func TestPortsInUse(t *testing.T) {
	t.Parallel()
	a := newAgent(t, portRange(4))
	take := func(port int) func() {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		return func() { _ = l.Close() }
	}
	first := []func(){take(a.ports[0]), take(a.ports[0] + 2)}
	text := session(a.name("three"), busybox, 0)
	file := a.apply("three", text)
	if got := a.published(); len(got) != 1 {
		t.Errorf("published on %q", got)
	}
	a.must("delete", "-f", file)
	a.mustBeClean()

	first = append(first, take(a.ports[0]+1))
	r := a.run("apply", "-f", file)
	a.want(r, 3, "", "container.port-range")
	a.must("delete", "-f", file)
	a.mustBeClean()
	for _, release := range first {
		release()
	}
	a.must("apply", "-f", file)
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// tmpfs mounts a file system of a few KiB.
func tmpfs(t *testing.T, dir, options string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// TestScratchRoot: a scratch root that is read-only or full fails the kernel with its path, not the daemon; afterwards all is well.
func TestScratchRoot(t *testing.T) {
	t.Parallel()
	a := prepareAgent(t, with("agentd.start-timeout", `"4s"`))
	dir := a.path("scratches")
	tmpfs(t, dir, "size=512k")
	a.start()
	file := a.file("three", session(a.name("three"), busybox, 1))
	remount := func(flags uintptr) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, "size=512k"); err != nil {
			t.Fatal(err)
		}
	}
	fails := func(what string) {
		t.Helper()
		r := a.run("apply", "-f", file)
		a.want(r, 3, "", what)
		if !strings.Contains(r.err, dir) {
			t.Errorf("the error does not name %s: %s", dir, r.err)
		}
		if got := a.containers(); len(got) > 0 {
			t.Errorf("containers %q beside an unusable scratch root", got)
		}
		a.must("delete", "-f", file)
		a.must("get", "nodes")
	}
	remount(syscall.MS_RDONLY)
	fails("read-only")
	remount(0)
	a.mustBeClean()

	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 500<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	fails("no space left")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	a.mustBeClean()
	a.must("apply", "-f", file)
	a.must("delete", "-f", file)
	a.mustBeClean()
	a.stop()
	_ = syscall.Unmount(dir, syscall.MNT_DETACH)
}

// TestFullStateDir: what cannot be written down is not done. The daemon ends with the reason, and the next one goes on.
func TestFullStateDir(t *testing.T) {
	t.Parallel()
	a := prepareAgent(t)
	dir := a.path("state")
	tmpfs(t, dir, "size=1m")
	a.start()
	running := a.apply("one", session(a.name("one"), busybox, 0))
	before := a.containers()
	file := a.file("three", session(a.name("three"), busybox, 1))
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the file system is larger than it should be")
	}
	checkpoint := filepath.Join(dir, "checkpoint.db")
	a.want(a.run("apply", "-f", file), 1, "", checkpoint+": no space left on device")
	<-a.done
	if code := a.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(a.logTail(), "agentd: the checkpoint cannot be written") {
		t.Errorf("the daemon ended with %d, saying %s", code, a.logTail())
	}
	if got := a.containers(); !slices.Equal(got, before) {
		t.Errorf("containers %q, before %q", got, before)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	a.start()
	if got := a.get("kernels"); len(got) != 1 {
		t.Errorf("%d kernels after the restart, want the one from before", len(got))
	}
	a.must("delete", "-f", running)
	a.mustBeClean()
	a.must("apply", "-f", file)
	a.must("delete", "-f", file)
	a.mustBeClean()
	a.stop()
	_ = syscall.Unmount(dir, syscall.MNT_DETACH)
}

// TestBadConfig: each wrong value ends the daemon at once, with exit code 1 and the key's name.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	a := prepareAgent(t)
	for _, c := range []struct{ key, value, says string }{
		{"container.port-range", "[30000, 20000]", "port-range"},
		{"container.port-range", "[0, 70000]", "port-range"},
		{"container.port-range", `"many"`, "port-range"},
		{"container.kernel-uid", "-5", "kernel-uid"},
		{"container.bind-host", `"not a host"`, "bind-host"},
		{"container.scratch-type", `"cloud"`, "scratch-type"},
		{"agent.backend", `"kubernetes"`, "agent.backend"},
		{"agent.id", `"../x"`, "agent.id"},
		{"agentd.start-timeout", `"soon"`, "start-timeout"},
		{"agentd.stop-grace", "true", "stop-grace"},
		{"resource.reserved-cpu", "100000", "reserved-cpu"},
		{"resource.reserved-mem", `"x"`, "reserved-mem"},
		{"container.scratch-root", q("/proc/version"), "/proc/version"},
		{"agentd.state-dir", q("/proc/version"), "/proc/version"},
		{"agentd.runner", q("/no/such/runner"), "/no/such/runner"},
		{"agentd.admin-socket", q("/no/such/dir/" + strings.Repeat("x", 120)), "admin-socket"},
		{"manager.enabled", "true", "[manager] enabled = false"},
		{"manager.enabled", "maybe", "agent.toml"},
	} {
		a.conf = map[string]string{c.key: c.value}
		a.writeConfig()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r := a.runIn(ctx, "", "run", "--config", a.path("agent.toml"))
		cancel()
		if r.code != 1 || !strings.Contains(r.err, c.says) || strings.Contains(r.err, "goroutine") {
			t.Errorf("%s = %s: exit %d, %q; want exit 1 and %q", c.key, c.value, r.code, r.err, c.says)
		}
	}
	a.want(a.run("run", "--config", a.path("nothing.toml")), 2, "", "nothing.toml")
}

// TestNoEngine: without an engine the daemon lives, says so, and goes on as soon as there is one.
func TestNoEngine(t *testing.T) {
	t.Parallel()
	socket := ""
	a := prepareAgent(t, with("agentd.start-timeout", `"3s"`), func(a *agent) {
		socket = a.path("docker.sock")
		a.host = "unix://" + socket
	})
	a.start()
	reachable := func() string {
		for _, c := range a.get("nodes")[0]["status"].(map[string]any)["conditions"].([]any) {
			if str(dig(c, "type")) == "EngineReachable" {
				return str(dig(c, "status")) + " " + str(dig(c, "message"))
			}
		}
		return "not said"
	}
	a.eventually("the node says that there is no engine", 20*time.Second, func() error {
		got := reachable()
		return unless(strings.HasPrefix(got, "false") && strings.Contains(got, socket), "EngineReachable: %s", got)
	})
	file := a.file("three", session(a.name("three"), busybox, 0))
	r := a.run("apply", "-f", file, "--timeout", "30s")
	a.want(r, 3, "", socket)
	if err := os.Symlink("/var/run/docker.sock", socket); err != nil {
		t.Fatal(err)
	}
	a.eventually("the engine is noticed", 30*time.Second, func() error {
		got := reachable()
		return unless(strings.HasPrefix(got, "true"), "EngineReachable: %s", got)
	})
	a.must("delete", "-f", file)
	a.mustBeClean()
	a.must("apply", "-f", file)
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// TestTwoDaemons: a state directory and a socket each serve one daemon; the second says so, and the first does not notice.
func TestTwoDaemons(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	file := a.apply("three", session(a.name("three"), busybox, 0))
	for what, other := range map[string]*agent{
		a.path("state"):       prepareAgent(t, with("agentd.state-dir", q(a.path("state")))),
		a.path("agentd.sock"): prepareAgent(t, with("agentd.admin-socket", q(a.path("agentd.sock")))),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r := other.runIn(ctx, "", "run", "--config", other.path("agent.toml"))
		cancel()
		if r.code != 1 || !strings.Contains(r.err, what) {
			t.Errorf("a second daemon on %s: exit %d, %s", what, r.code, r.err)
		}
	}
	if got := a.sh(a.at("main1"), "hostname"); got != "main1" {
		t.Errorf("main1 answers %q", got)
	}
	a.must("delete", "-f", file)
	a.mustBeClean()
}
