// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// name makes a session name that no other agent on this engine uses: kernel IDs and network names follow from it.
func (a *agent) name(base string) string { return base + strings.TrimPrefix(a.id, "i-e2e") }

// at names a host of the session called three.
func (a *agent) at(host string) string { return a.name("three") + "/" + host }

// in runs a command in a kernel as its user.
func (a *agent) in(ref string, command ...string) result {
	a.t.Helper()
	return a.run(append([]string{"exec", ref, "--"}, command...)...)
}

// sh runs a shell script in a kernel, which has to succeed, and returns what it wrote.
func (a *agent) sh(ref, script string) string {
	a.t.Helper()
	r := a.in(ref, "sh", "-c", "set -e\n"+script)
	if r.code != 0 {
		a.t.Fatalf("in %s: exit %d\n%s\n%s%s", ref, r.code, script, r.out, r.err)
	}
	return strings.TrimRight(r.out, "\n")
}

// want fails the test when a result is not as expected; an empty part matches everything.
func (a *agent) want(r result, code int, out, err string) {
	a.t.Helper()
	if r.code != code || !strings.Contains(r.out, out) || !strings.Contains(r.err, err) {
		a.t.Errorf("exit %d, output %q, errors %q; want exit %d, %q and %q", r.code, r.out, r.err, code, out, err)
	}
}

// onTerminal runs agentd on a terminal of 33 rows and 99 columns, types the input and returns all that was shown.
func (a *agent) onTerminal(input string, args ...string) result {
	a.t.Helper()
	cmd := exec.Command(agentd, args...)
	cmd.Env, cmd.Dir = append(a.env(), "TERM=vt220"), a.dir
	term, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 99})
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = term.Close() }()
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if _, err := io.WriteString(term, input); err != nil {
		a.t.Fatal(err)
	}
	var shown bytes.Buffer
	_, _ = io.Copy(&shown, term) // ends with EIO when the other side is closed
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.t.Fatal(err)
	}
	return result{out: shown.String(), code: cmd.ProcessState.ExitCode()}
}

// inspect reads one value of a container by a template.
func (a *agent) inspect(kernel, template string) string {
	a.t.Helper()
	return a.docker("inspect", "-f", template, a.container(kernel))
}

// oneEnd checks that a kernel ended once, in order, with the reason and exit code; an empty code matches every one.
func (a *agent) oneEnd(kernel, reason, exit string) {
	a.t.Helper()
	ends := a.ends(kernel)
	if len(ends) != 1 || ends[0].Reason != reason || exit != "" && ends[0].Exit != exit {
		a.t.Errorf("kernel %s: ends %+v, want one with reason %s and exit code %q", kernel, ends, reason, exit)
	}
	rank := map[string]int{
		"kernel_preparing": 1, "kernel_pulling": 2, "kernel_creating": 3, "kernel_started": 4,
		"kernel_terminating": 5, "kernel_terminated": 6,
	}
	last, told := 0, []string{}
	for _, e := range a.events() {
		if e.Kernel != kernel {
			continue
		}
		told = append(told, e.Type)
		if rank[e.Type] <= last {
			a.t.Errorf("kernel %s: events %q are not in order", kernel, told)
		}
		last = rank[e.Type]
	}
}

// image builds an image from a Dockerfile without touching a registry, and removes it at the end of the test.
func image(t *testing.T, name, dockerfile string) string {
	t.Helper()
	tag := "agentd.local/e2e-" + name + ":1"
	cmd := exec.Command("docker", "build", "-q", "-t", tag, "-")
	cmd.Env = append(cmd.Environ(), "DOCKER_BUILDKIT=0")
	cmd.Stdin = strings.NewReader(dockerfile)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", tag, err, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", "-f", tag).Run() })
	return tag
}

// unless returns an error while something does not hold.
func unless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}
