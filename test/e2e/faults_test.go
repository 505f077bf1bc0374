// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentd/test/e2e/engine"
)

const engineSocket = "/var/run/docker.sock"

// behindProxy starts an agent whose engine is reached through a proxy.
func behindProxy(t *testing.T, options ...func(*agent)) (*agent, *engine.Proxy) {
	t.Helper()
	p := engine.NewProxy(t, engineSocket)
	t.Cleanup(p.Clear) // what it still holds goes on, so that the agent can end
	return newAgent(t, append(options, onEngine(p.Socket()))...), p
}

// quick makes the agent look at the node twice a second.
func quick(a *agent) { a.conf["agent.sync-container-lifecycles.interval"] = "0.5" }

// session writes a session file whose name no other agent uses: what the IDs of
// kernels follow from must not be shared by agents of one engine.
func (a *agent) session(name string, subs int, extra ...string) string {
	a.t.Helper()
	return a.file(name, session(a.id+"-"+name, busybox, subs, extra...))
}

// applied applies such a session, which has to become ready.
func (a *agent) applied(name string, subs int, extra ...string) string {
	a.t.Helper()
	file := a.session(name, subs, extra...)
	a.must("apply", "-f", file)
	return file
}

// moment is a request to the engine: the nth of its kind since it was frozen,
// before the engine hears of it, or after it has done it and before it answers.
type moment struct {
	method, path string
	nth          int
	after        bool
}

func (m moment) String() string {
	when := "before"
	if m.after {
		when = "after"
	}
	return fmt.Sprintf("%s %s %s %d", when, m.method, strings.Trim(m.path, "^$/"), m.nth)
}

// freeze stops the exchange at that moment. The channel is closed when it is
// reached; resume lets it go on.
func freeze(p *engine.Proxy, m moment) (reached <-chan struct{}, resume func()) {
	at, held := make(chan struct{}), make(chan struct{})
	stop := func(b []byte) []byte {
		close(at)
		<-held
		return b
	}
	rule := engine.Rule{Method: m.method, Path: m.path, Nth: max(m.nth, 1), Times: 1}
	if m.after {
		rule.Rewrite = stop
	} else {
		rule.Request = stop
	}
	h := p.Add(rule)
	return at, func() { h.Remove(); close(held) }
}

// await waits for a moment.
func (a *agent) await(what string, c <-chan struct{}) {
	a.t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		a.t.Fatalf("%s: not within 30 s\nlog: %s", what, a.logTail())
	}
}

// starts counts how often the engine started each of the agent's containers, by kernel.
func (a *agent) starts(since time.Time) map[string]int {
	a.t.Helper()
	const form = "{{index .Actor.Attributes \"ai.backend.kernel-id\"}}"
	stamp := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMicro())/1e6, 'f', 6, 64) }
	out := map[string]int{}
	for _, id := range lines(a.docker("events", "--since", stamp(since), "--until", stamp(time.Now()),
		"--filter", "event=start", "--filter", "label=ai.backend.agent-id="+a.id, "--format", form)) {
		out[id]++
	}
	return out
}

// kernels lists the IDs of all kernels.
func (a *agent) kernels() []string {
	a.t.Helper()
	var out []string
	for _, k := range a.get("kernels") {
		out = append(out, str(dig(k, "metadata", "name")))
	}
	return out
}

// ids checks that each kernel has one container and that it runs. What it returns
// for a kernel changes when that container is another, or was started anew.
func (a *agent) ids(kernels []string) map[string]string {
	a.t.Helper()
	out := map[string]string{}
	for _, k := range kernels {
		id := a.container(k)
		if id == "" || strings.Contains(id, "\n") {
			a.t.Fatalf("kernel %s has the containers %q, want one", k, id)
		}
		if s := a.docker("inspect", "-f", "{{.State.Status}} {{.State.StartedAt}}", id); !strings.HasPrefix(s, "running ") {
			a.t.Fatalf("container of kernel %s: %s, want running", k, s)
		} else {
			out[k] = id + " " + s
		}
	}
	return out
}

// mustBeTold checks that each kernel's events are the given ones, each once and in order.
func (a *agent) mustBeTold(kernels []string, want ...string) {
	a.t.Helper()
	told := map[string][]string{}
	for _, e := range a.events() {
		told[e.Kernel] = append(told[e.Kernel], strings.TrimPrefix(e.Type, "kernel_"))
	}
	for _, k := range kernels {
		if !slices.Equal(told[k], want) {
			a.t.Errorf("events of kernel %s: %q, want %q", k, told[k], want)
		}
	}
}

// ended waits for the kernel's terminal event and checks that it is the only one.
func (a *agent) ended(kernel string, limit time.Duration) event {
	a.t.Helper()
	a.eventually("kernel "+kernel+" is reported", limit, func() error {
		if len(a.ends(kernel)) == 0 {
			return fmt.Errorf("no terminal event")
		}
		return nil
	})
	ends := a.ends(kernel)
	if len(ends) != 1 {
		a.t.Errorf("terminal events of kernel %s: %v, want one", kernel, ends)
	}
	return ends[0]
}

// condition returns a condition of an object, empty fields if it has none.
func condition(object map[string]any, kind string) (status bool, reason, message string) {
	list, _ := dig(object, "status", "conditions").([]any)
	for _, c := range list {
		if str(dig(c, "type")) == kind {
			return str(dig(c, "status")) == "true", str(dig(c, "reason")), str(dig(c, "message"))
		}
	}
	return false, "", ""
}

// node waits until a condition of the node has the status, and returns its message.
func (a *agent) node(kind string, want bool) string {
	a.t.Helper()
	var text string
	a.eventually(fmt.Sprintf("node: %s is %t", kind, want), 20*time.Second, func() error {
		nodes := a.get("nodes")
		if len(nodes) != 1 {
			return fmt.Errorf("%d nodes", len(nodes))
		}
		got, reason, message := condition(nodes[0], kind)
		if text = message; got != want {
			return fmt.Errorf("%t: %s: %s", got, reason, message)
		}
		return nil
	})
	return text
}

// metric reads a figure from the admin socket.
func (a *agent) metric(name string) float64 {
	a.t.Helper()
	c := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", a.path("agentd.sock"))
		},
		DisableKeepAlives: true,
	}}
	resp, err := c.Get("http://agentd/metrics")
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	s := bufio.NewScanner(resp.Body)
	for s.Scan() {
		if rest, ok := strings.CutPrefix(s.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				a.t.Fatal(err)
			}
			return v
		}
	}
	a.t.Fatalf("no metric %s", name)
	return 0
}

// portsOf returns the host ports of a kernel.
func (a *agent) portsOf(kernel string) []int {
	a.t.Helper()
	var out []int
	for _, b := range a.get("bindings") {
		if str(dig(b, "metadata", "name")) != kernel {
			continue
		}
		list, _ := dig(b, "status", "ports").([]any)
		for _, p := range list {
			n, err := strconv.Atoi(str(dig(p, "host")))
			if err != nil {
				a.t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}

// listen takes a port of this host until the test ends.
func listen(t *testing.T, port int) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// stray creates a container that carries the agent's labels and that it knows nothing of.
func (a *agent) stray(kernel string, args ...string) string {
	a.t.Helper()
	return a.docker(append([]string{
		"create", "--label", "ai.backend.agent-id=" + a.id, "--label", "ai.backend.owner=" + a.id,
		"--label", "ai.backend.kernel-id=" + kernel, "--entrypoint", "/bin/sleep", "--name", "stray." + a.id + "." + kernel, busybox,
	}, args...)...)
}

// there tells whether the engine has the container.
func there(id string) bool { return exec.Command("docker", "container", "inspect", id).Run() == nil }

// decode parses JSON or fails the test.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}
