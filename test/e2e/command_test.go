// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process kills a process of this machine.
func process(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil || n < 2 {
		t.Fatalf("no process %q", pid)
	}
	p, err := os.FindProcess(n)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// TestExec: commands in a kernel have its environment, their own exit codes and streams, and a terminal if wanted.
func TestExec(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	file := a.apply("three", session(a.name("three"), busybox, 0, "environ: {GREETING: \"hello you\"}"))
	main := a.at("main1")
	a.want(a.in(main, "sh", "-c", "echo $GREETING; id -un; id -u; pwd; echo bad >&2; exit 42"), 42, "hello you\nwork\n1000\n/home/work\n", "bad\n")
	a.want(a.run("exec", "--root", main, "--", "id", "-u"), 0, "0\n", "")
	a.want(a.run("exec", main, "echo", "--", "-x"), 0, "-- -x\n", "") // the "--" is echo's
	a.want(a.runIn(t.Context(), "some\ninput\n", "exec", "-i", main, "--", "cat"), 0, "some\ninput\n", "")
	a.want(a.runIn(t.Context(), "unread", "exec", main, "--", "cat"), 0, "", "")
	a.want(a.in(main, "no-such-command"), 1, "", "no-such-command")
	a.want(a.in("nothing/main1", "true"), 1, "", "nothing/main1")
	a.want(a.run("exec", main), 2, "", "command")
	a.want(a.run("exec", "-t", main, "--", "true"), 2, "", "-it")

	// An engine before API 1.42 sets the size a moment after the start.
	const sized = "until stty size 2>/dev/null | grep -q 99; do usleep 10000; done; "
	r := a.onTerminal("", "exec", "-it", main, "--", "sh", "-c", sized+"tty; stty size; echo $TERM; exit 9")
	a.want(r, 9, "\r\n33 99\r\nvt220", "")
	r = a.onTerminal("hostname; exit 4\n", "ssh", main)
	a.want(r, 4, "main1\r\n", "")
	a.want(a.run("ssh", main, "exit 6"), 6, "", "")
	a.want(a.runIn(t.Context(), "abc", "ssh", main, "wc -c"), 0, "3\n", "")

	// A kernel reached by SSH gives a terminal too.
	r = a.onTerminal("", "exec", "-it", main, "--", "sh", "-c", sized+"ssh -t main1 'stty size; tty; exit 3'")
	a.want(r, 3, "33 99\r\n/dev/pts/", "")
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// log returns a kernel's log; its lines end as on a terminal, which every kernel has.
func (a *agent) log(args ...string) string {
	a.t.Helper()
	return strings.ReplaceAll(a.must(append([]string{"logs"}, args...)...)+"\n", "\r\n", "\n")
}

// TestLogs: the log can be followed to the kernel's end, and read after it.
func TestLogs(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	file := a.apply("three", session(a.name("three"), busybox, 0,
		`command: [sh, -c, "echo first; echo second >&2; until [ -e end ]; do usleep 50000; done; echo last; exit 5"]`))
	id := a.kernel("main1")
	a.eventually("the log", 10*time.Second, func() error {
		got := a.log(a.at("main1"))
		return unless(got == "first\nsecond\n", "log %q", got)
	})
	if got := a.log("--tail", "1", a.at("main1")); got != "second\n" {
		t.Errorf("its last line is %q", got)
	}
	cmd := exec.CommandContext(t.Context(), agentd, "logs", "-f", a.at("main1"))
	cmd.Env, cmd.Dir = a.env(), a.dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var followed []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		followed = append(followed, strings.TrimSuffix(lines.Text(), "\r"))
		if len(followed) == 2 {
			a.sh(a.at("main1"), "touch end")
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("agentd logs -f: %v", err)
	}
	if got := strings.Join(followed, " "); got != "first second last" {
		t.Errorf("followed %q", got)
	}
	a.eventually("the end is told", 10*time.Second, func() error {
		return unless(len(a.ends(id)) > 0, "no end")
	})
	a.oneEnd(id, "self-terminated", "5")
	a.want(a.run("logs", "nothing/main1"), 1, "", "nothing/main1")
	a.must("delete", "-f", file)
	a.mustBeClean()
	for _, ref := range []string{id, a.at("main1"), a.name("three")} {
		if got := a.log("-f", ref) + a.log("--tail", "1", ref); got != "first\nsecond\nlast\nlast\n" {
			t.Errorf("the log of %s after its end: %q", ref, got)
		}
	}
}

// TestNoShell: in an image of one static program the command is started as it is, with the environment, and its exit code is the kernel's.
func TestNoShell(t *testing.T) {
	t.Parallel()
	a := newAgent(t)
	name := a.name("three")
	env := a.file("env", session(name+"-env", noshell, 0, "command: [/noshell, env]", `environ: {GREETING: "hello you"}`))
	a.want(a.run("apply", "-f", env), 0, "", "")
	fails := a.file("exit", session(name+"-exit", noshell, 0, `command: [/noshell, exit, "3"]`))
	a.run("apply", "-f", fails)
	a.eventually("both end", 20*time.Second, func() error {
		ends := 0
		for _, e := range a.events() {
			if e.Type == "kernel_terminated" {
				ends++
			}
		}
		return unless(ends == 2, "%d ends", ends)
	})
	for _, e := range a.events() {
		if e.Type != "kernel_terminated" {
			continue
		}
		log := a.log(e.Kernel)
		switch e.Exit {
		case "0":
			for _, want := range []string{"GREETING=hello you", "BACKENDAI_CLUSTER_HOST=main1", "HOME=/home/work", "LOCAL_USER_ID=1000"} {
				if !strings.Contains(log, want+"\n") {
					t.Errorf("%s is missing in the environment:\n%s", want, log)
				}
			}
			a.oneEnd(e.Kernel, "self-terminated", "0")
		default:
			a.oneEnd(e.Kernel, "self-terminated", "3")
		}
	}
	wait := a.apply("wait", session(name, noshell, 1))
	a.want(a.in(a.at("main1"), "/noshell", "id"), 0, "uid=1000 gid=1000", "")
	a.want(a.in(a.at("main1"), "ssh", "sub1", "/noshell", "args", "'a b'", "c"), 0, "a b\nc\n", "")
	a.want(a.in(a.at("main1"), "ssh", "sub1", "/noshell exit 7"), 7, "", "")
	for _, file := range []string{wait, env, fails} {
		a.must("delete", "-f", file)
	}
	a.mustBeClean()
}
