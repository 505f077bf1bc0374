// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	busybox = "agentd.local/busybox:1"
	python  = "agentd.local/python:3.13-trixie"
	musl    = "agentd.local/musl:1"
	noshell = "agentd.local/noshell:1"
)

// agentd is the binary under test, built once.
var agentd string

func TestMain(m *testing.M) {
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// prepare checks the engine and images, and builds the binaries under test.
func prepare(m *testing.M) (int, error) {
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		return 0, fmt.Errorf("no Docker Engine answers; run \"make setup\" as root: %s", bytes.TrimSpace(out))
	}
	for _, image := range []string{busybox, python, musl, noshell} {
		if err := exec.Command("docker", "image", "inspect", image).Run(); err != nil {
			return 0, fmt.Errorf("image %s is not on this engine; run \"make images\"", image)
		}
	}
	dir, err := os.MkdirTemp("", "agentd-e2e-bin.")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, pkg := range map[string]string{"agentd": "agentd/cmd/agentd", "bai-runner": "agentd/runner-bin/bai-runner"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, name), "-ldflags", "-s -w", pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("building %s: %s", name, out)
		}
	}
	agentd = filepath.Join(dir, "agentd")
	return m.Run(), nil
}

// agents counts the agents of this run, for IDs and port ranges of their own.
var agents atomic.Int32

// agent is one agentd process with a state directory of its own.
type agent struct {
	t *testing.T
	// dir holds everything of it; id is its agent ID; host is its engine.
	dir, id string
	host    string
	ports   [2]int
	conf    map[string]string // table.key → TOML value, over the defaults
	under   []string          // command that the daemon is run by
	cmd     *exec.Cmd
	done    chan struct{}
}

// newAgent starts an agent that must leave nothing behind at the end of the test.
func newAgent(t *testing.T, options ...func(*agent)) *agent {
	t.Helper()
	a := prepareAgent(t, options...)
	a.start()
	return a
}

// prepareAgent makes everything but the process.
func prepareAgent(t *testing.T, options ...func(*agent)) *agent {
	t.Helper()
	n := int(agents.Add(1))
	// Below the kernel's own range for outgoing connections, and apart from other runs on the same machine.
	first := 12000 + os.Getpid()%10*2000 + n%50*40
	a := &agent{
		t: t, id: fmt.Sprintf("i-e2e-%d-%d", os.Getpid(), n),
		ports: [2]int{first, first + 39}, conf: map[string]string{},
	}
	var err error
	if a.dir, err = os.MkdirTemp("", "agentd-e2e."); err != nil { //nolint:usetesting // a socket needs a short path
		t.Fatal(err)
	}
	for _, o := range options {
		o(a)
	}
	t.Cleanup(a.cleanup)
	a.writeConfig()
	return a
}

// with sets a configuration key, such as "agentd.start-timeout" to `"20s"`.
func with(key, value string) func(*agent) { return func(a *agent) { a.conf[key] = value } }

// onEngine points the agent at another engine socket.
func onEngine(socket string) func(*agent) { return func(a *agent) { a.host = "unix://" + socket } }

// under runs the daemon by another command, such as prlimit.
func under(command ...string) func(*agent) { return func(a *agent) { a.under = command } }

// portRange narrows the host ports.
func portRange(n int) func(*agent) { return func(a *agent) { a.ports[1] = a.ports[0] + n - 1 } }

func (a *agent) path(elem ...string) string {
	return filepath.Join(append([]string{a.dir}, elem...)...)
}

func (a *agent) writeConfig() {
	a.t.Helper()
	conf := map[string]string{
		"manager.enabled": "false", "agentd.state-dir": q(a.path("state")), "agentd.admin-socket": q(a.path("agentd.sock")),
		"agent.backend": `"docker"`, "agent.id": q(a.id), "container.scratch-root": q(a.path("scratches")),
		"container.kernel-uid": "1000", "container.kernel-gid": "1000",
		"container.port-range":              fmt.Sprintf("[%d, %d]", a.ports[0], a.ports[1]),
		"container.port-reuse-cooldown-sec": "0",
		"resource.reserved-cpu":             "0", "agentd.start-timeout": `"60s"`,
	}
	maps.Copy(conf, a.conf)
	tables := map[string][]string{}
	for k, v := range conf {
		i := strings.LastIndexByte(k, '.')
		tables[k[:i]] = append(tables[k[:i]], k[i+1:]+" = "+v)
	}
	var text strings.Builder
	for name, lines := range tables {
		slices.Sort(lines)
		fmt.Fprintf(&text, "[%s]\n%s\n\n", name, strings.Join(lines, "\n"))
	}
	if err := os.WriteFile(a.path("agent.toml"), []byte(text.String()), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func q(s string) string { return fmt.Sprintf("%q", s) }

func (a *agent) env() []string {
	env := append(os.Environ(), "AGENTD_SOCKET="+a.path("agentd.sock"), "BACKEND_CPU_OVERCOMMIT_FACTOR=50")
	if a.host != "" {
		env = append(env, "DOCKER_HOST="+a.host)
	}
	return env
}

// start runs the daemon and waits until its socket answers.
func (a *agent) start() {
	a.t.Helper()
	log, err := os.OpenFile(a.path("agentd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.t.Fatal(err)
	}
	line := append(slices.Clone(a.under), agentd, "run", "--config", a.path("agent.toml"))
	a.cmd = exec.Command(line[0], line[1:]...)
	a.cmd.Env, a.cmd.Dir, a.cmd.Stdout, a.cmd.Stderr = a.env(), a.dir, log, log
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	_ = log.Close()
	done := make(chan struct{})
	a.done = done
	cmd := a.cmd
	go func() { _ = cmd.Wait(); close(done) }()
	a.eventually("the daemon answers", 20*time.Second, func() error {
		select {
		case <-done:
			return stop{fmt.Errorf("the daemon ended: %s", a.logTail())}
		default:
		}
		return a.try("get", "nodes", "-o", "name")
	})
}

// kill ends the daemon without warning; stop asks it to end.
func (a *agent) kill() { a.signal(syscall.SIGKILL) }
func (a *agent) stop() { a.signal(syscall.SIGTERM) }

func (a *agent) signal(s syscall.Signal) {
	a.t.Helper()
	if a.cmd == nil {
		return
	}
	_ = a.cmd.Process.Signal(s)
	select {
	case <-a.done:
	case <-time.After(30 * time.Second):
		_ = a.cmd.Process.Kill()
		a.t.Errorf("agentd did not end within 30 s of %s", s)
	}
	a.cmd = nil
}

// result is what a command did.
type result struct {
	out, err string
	code     int
}

// run runs agentd with arguments; the command's own failure is in the result.
func (a *agent) run(args ...string) result { return a.runIn(context.Background(), "", args...) }

func (a *agent) runIn(ctx context.Context, stdin string, args ...string) result {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, agentd, args...)
	cmd.Env, cmd.Dir = a.env(), a.dir
	cmd.Stdin = strings.NewReader(stdin)
	var out, errw bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errw
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.t.Fatalf("agentd %v: %v", args, err)
	}
	return result{out.String(), errw.String(), cmd.ProcessState.ExitCode()}
}

// must runs a command that has to succeed and returns its output without the last newline.
func (a *agent) must(args ...string) string {
	a.t.Helper()
	r := a.run(args...)
	if r.code != 0 {
		a.t.Fatalf("agentd %s: exit %d\n%s%s\nlog: %s", strings.Join(args, " "), r.code, r.out, r.err, a.logTail())
	}
	return strings.TrimRight(r.out, "\n")
}

func (a *agent) try(args ...string) error {
	if r := a.run(args...); r.code != 0 {
		return fmt.Errorf("exit %d: %s", r.code, r.err)
	}
	return nil
}

// reconcile runs the one-shot repair with the agent's configuration.
func (a *agent) reconcile(args ...string) result {
	a.t.Helper()
	return a.run(append([]string{"reconcile", "--once", "--config", a.path("agent.toml")}, args...)...)
}

// file writes a session file and returns its path.
func (a *agent) file(name, text string) string {
	a.t.Helper()
	p := a.path(name + ".yaml")
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return p
}

// apply applies a session file that has to become ready.
func (a *agent) apply(name, text string) string {
	a.t.Helper()
	p := a.file(name, text)
	a.must("apply", "-f", p)
	return p
}

// get decodes objects of a kind.
func (a *agent) get(kind string) []map[string]any {
	a.t.Helper()
	var list struct {
		Items []map[string]any `json:"items"`
	}
	text := a.must("get", kind, "-o", "json")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		a.t.Fatalf("agentd get %s -o json: %v\n%s", kind, err, text)
	}
	return list.Items
}

// dig follows a path of keys through decoded JSON.
func dig(v any, path ...string) any {
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

func str(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// kernel returns the ID of a session's kernel by hostname.
func (a *agent) kernel(host string) string {
	a.t.Helper()
	for _, k := range a.get("kernels") {
		if str(dig(k, "spec", "hostname")) == host {
			return str(dig(k, "metadata", "name"))
		}
	}
	a.t.Fatalf("no kernel with hostname %s", host)
	return ""
}

// event is one line of what the manager would be told.
type event struct{ Type, Kernel, Reason, Message, Exit string }

func (a *agent) events() []event {
	a.t.Helper()
	var out []event
	for _, e := range a.get("events") {
		out = append(out, event{
			str(dig(e, "spec", "type")), str(dig(e, "spec", "kernelID")), str(dig(e, "spec", "reason")),
			str(dig(e, "spec", "message")), str(dig(e, "spec", "exitCode")),
		})
	}
	return out
}

// ends returns the terminal events of a kernel.
func (a *agent) ends(kernel string) []event {
	return slices.DeleteFunc(a.events(), func(e event) bool { return e.Kernel != kernel || e.Type != "kernel_terminated" })
}

// stop ends an [agent.eventually] at once.
type stop struct{ error }

// eventually tries until there is no error; it polls, because what it waits for is another process.
func (a *agent) eventually(what string, limit time.Duration, try func() error) {
	a.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := try()
		var s stop
		switch {
		case err == nil:
			return
		case errors.As(err, &s) || time.Now().After(deadline):
			a.t.Fatalf("%s: %v\nlog: %s", what, err, a.logTail())
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (a *agent) logTail() string {
	b, err := os.ReadFile(a.path("agentd.log"))
	if err != nil {
		return err.Error()
	}
	if len(b) > 6000 {
		b = b[len(b)-6000:]
	}
	return string(b)
}

// docker runs the engine's client and returns its output.
func (a *agent) docker(args ...string) string {
	a.t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		a.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// containers lists the agent's containers in every state as "name state".
func (a *agent) containers() []string {
	a.t.Helper()
	return lines(a.docker("ps", "-a", "--filter", "label=ai.backend.agent-id="+a.id, "--format", "{{.Names}} {{.State}}"))
}

// container returns the engine's ID of a kernel's container.
func (a *agent) container(kernel string) string {
	a.t.Helper()
	return a.docker("ps", "-aq", "--no-trunc", "--filter", "label=ai.backend.kernel-id="+kernel)
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// leftovers names everything of the agent that is still on the node.
func (a *agent) leftovers() []string {
	a.t.Helper()
	out := a.containers()
	for _, n := range lines(a.docker("network", "ls", "--filter", "label=ai.backend.agent-id="+a.id, "--format", "{{.Name}}")) {
		out = append(out, "network "+n)
	}
	entries, err := os.ReadDir(a.path("scratches"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		a.t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, "scratch "+e.Name())
		}
	}
	return out
}

// mustBeClean checks that nothing is left on the node and nothing is held in the store.
func (a *agent) mustBeClean() {
	a.t.Helper()
	a.eventually("the node is clean", 30*time.Second, func() error {
		left := a.leftovers()
		for _, kind := range []string{"kernels", "clustersessions", "bindings", "containers", "scratches", "networks"} {
			for _, o := range a.get(kind) {
				left = append(left, kind+" "+str(dig(o, "metadata", "name")))
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("left over: %q", left)
		}
		return nil
	})
}

// cleanup removes by force what a failed test left, and says so.
func (a *agent) cleanup() {
	if a.t.Failed() {
		a.t.Logf("log of %s:\n%s", a.id, a.logTail())
	}
	a.stop()
	for _, id := range lines(a.docker("ps", "-aq", "--filter", "label=ai.backend.agent-id="+a.id)) {
		if !a.t.Failed() {
			a.t.Errorf("container %s is left over", id)
		}
		a.docker("rm", "-f", id)
	}
	for _, id := range lines(a.docker("network", "ls", "-q", "--filter", "label=ai.backend.agent-id="+a.id)) {
		if !a.t.Failed() {
			a.t.Errorf("network %s is left over", id)
		}
		a.docker("network", "rm", id)
	}
	_ = os.RemoveAll(a.dir)
}

// session is a session file with one main and some subs.
func session(name, image string, subs int, extra ...string) string {
	text := fmt.Sprintf(`apiVersion: agentd/v1
kind: ClusterSession
metadata: {name: %s}
spec:
  image: %s
  slots: {cpu: "1", mem: 128m}
  replicas:
    - {role: main}
`, name, image)
	if subs > 0 {
		text += fmt.Sprintf("    - {role: sub, count: %d}\n", subs)
	}
	for _, e := range extra {
		text += "  " + strings.ReplaceAll(e, "\n", "\n  ") + "\n"
	}
	return text
}
