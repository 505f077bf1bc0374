// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"agentd/test/e2e/engine"
)

// What agents share with everybody on the host: names of networks, and ports.

// B063: networks of the session's name that others made are not taken for ours.
func TestSameNetworkName(t *testing.T) {
	a := newAgent(t, quick)
	file := a.applied("s", 1)
	kernels := a.kernels()
	name := a.docker("network", "ls", "--filter", "label=ai.backend.agent-id="+a.id, "--format", "{{.Name}}")
	var foreign []string
	for range 2 { // an old client does not ask for a name of its own
		id := duplicate(t, name)
		foreign = append(foreign, id)
		t.Cleanup(func() { a.docker("network", "rm", id) })
	}
	again := a.session("again", 1)
	a.must("apply", "-f", again) // nothing of the one is in the other's way
	a.kill()
	a.start()
	a.ids(kernels)
	a.must("delete", "-f", file)
	a.must("delete", "-f", again)
	a.mustBeClean()
	for _, id := range foreign {
		a.docker("network", "inspect", id)
	}
	if r := a.run("apply", "--timeout", "5s", "-f", file); r.code != 3 || !strings.Contains(r.out+r.err, "ambiguous") {
		t.Errorf("exit %d, want 3 and that the name is ambiguous\n%s%s", r.code, r.out, r.err)
	}
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// duplicate makes one more network of that name, as old clients may.
func duplicate(t *testing.T, name string) string {
	t.Helper()
	out := curl(t, "/v1.41/networks/create", fmt.Sprintf(`{"Name":%q,"CheckDuplicate":false,"Driver":"bridge"}`, name))
	return decode[struct{ ID string }](t, out).ID
}

// B077: a kernel that needs more ports than there are takes none.
func TestTooFewPorts(t *testing.T) {
	a := newAgent(t, portRange(5))
	// Each kernel has two ports of its own.
	for n := range 3 {
		name := fmt.Sprintf("six%d", n)
		file := a.session(name, 0, "preopenPorts: [9001, 9002, 9003, 9004]")
		if r := a.run("apply", "-f", file); r.code != 3 || !strings.Contains(r.out+r.err, "ports") {
			t.Fatalf("exit %d, want 3 and why\n%s%s", r.code, r.out, r.err)
		}
	}
	a.mustBeClean()
	file := a.applied("five", 0, "preopenPorts: [9001, 9002, 9003]")
	a.must("delete", "-f", file)
	a.mustBeClean()
}

// B081: ports that others use are left to them, whether that shows before or
// while the container starts.
func TestPortsOfOthers(t *testing.T) {
	a, p := behindProxy(t)
	busy := []int{a.ports[0], a.ports[0] + 2}
	for _, port := range busy {
		listen(t, port)
	}
	file := a.applied("one", 1)
	for _, k := range a.kernels() {
		for _, port := range a.portsOf(k) {
			if slices.Contains(busy, port) {
				t.Errorf("kernel %s has port %d, which is in use", k, port)
			}
		}
	}
	a.must("delete", "-f", file)
	a.mustBeClean()

	// Taken after the choice, before the start.
	p.Forget()
	reached, resume := freeze(p, moment{method: post, path: startContainer})
	file = a.session("two", 0)
	a.must("apply", "--wait=false", "-f", file)
	a.await("the start", reached)
	k := a.kernel("main1")
	taken := a.portsOf(k)
	listen(t, taken[0])
	resume()
	a.must("apply", "-f", file)
	now := a.portsOf(k)
	if slices.Contains(now, taken[0]) {
		t.Errorf("ports %v, and %d is in use", now, taken[0])
	}
	if n := p.Requests(post, startContainer); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
	third := a.applied("three", 0)
	a.must("delete", "-f", file)
	a.must("delete", "-f", third)
	a.mustBeClean()

	// An engine that calls every port taken is not asked for ever.
	p.Forget()
	p.Add(engine.Rule{Method: post, Path: startContainer, Status: 500, Body: `{"message":"driver failed programming external connectivity: Bind for 127.0.0.1:1 failed: port is already allocated"}`})
	file = a.session("four", 0)
	if r := a.run("apply", "-f", file); r.code != 3 || !strings.Contains(r.out+r.err, "port") {
		t.Errorf("exit %d, want 3\n%s%s", r.code, r.out, r.err)
	}
	if n := p.Requests(post, startContainer); n > 12 {
		t.Errorf("%d starts", n)
	}
	a.mustBeClean()
}

// curl posts to the engine in words that its client does not have, and returns
// the answer's body.
func curl(t *testing.T, path, body string) string {
	t.Helper()
	conn, err := net.Dial("unix", engineSocket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	req, err := http.NewRequestWithContext(t.Context(), post, "http://engine"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("POST %s: %s, %v\n%s", path, resp.Status, err, b)
	}
	return string(b)
}
