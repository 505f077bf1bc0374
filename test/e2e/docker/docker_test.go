// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/docker"
	"agentd/test/e2e/engine"
)

// image is the tiny image of kernel-images; "make images" builds it.
const image = "agentd.local/busybox:1"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a real engine with an agent of this test alone.
type node struct {
	t *testing.T
	*docker.Engine
	proxy  *engine.Proxy
	id     string
	prefix string
}

// open connects through a proxy. Whatever the agent made is removed at the end.
func open(t *testing.T, change ...func(*docker.Options)) *node {
	t.Helper()
	socket := strings.TrimPrefix(cmp.Or(os.Getenv("DOCKER_HOST"), docker.DefaultHost), "unix://")
	n := &node{t: t, proxy: engine.NewProxy(t, socket), id: "i-" + strings.ToLower(rand.Text()[:10])}
	n.prefix = "kernel.e2e." + n.id
	opt := docker.Options{Host: n.proxy.Host(), AgentID: n.id, CallTimeout: 30 * time.Second}
	for _, c := range change {
		c(&opt)
	}
	e, err := docker.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	n.Engine = e
	t.Cleanup(n.clean)
	if _, found, err := e.Images().Inspect(t.Context(), image); !found {
		t.Fatalf("no engine with image %s (error: %v); run \"make setup images\"", image, err)
	}
	return n
}

func (n *node) clean() {
	n.proxy.Clear()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.t.Context()), time.Minute)
	defer cancel()
	list, err := n.List(ctx)
	for _, c := range list {
		err = errors.Join(err, n.Remove(ctx, c.ID))
	}
	nets, listErr := n.Networks().List(ctx)
	for _, net := range nets {
		listErr = errors.Join(listErr, n.Networks().Remove(ctx, net.Name))
	}
	if err := errors.Join(err, listErr, n.Close()); err != nil {
		n.t.Error(err)
	}
}

// spec runs a shell command in a container of its own.
func (n *node) spec(kernel, script string) apis.ContainerSpec {
	return apis.ContainerSpec{
		EngineName: n.prefix + "." + kernel, Incarnation: 1, Image: image, Hostname: "main1",
		Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{script}, StopSignal: "SIGINT", LogMaxBytes: 10 << 20,
		Labels: map[string]string{apis.LabelKernelID: kernel, apis.LabelSessionID: "s1"},
	}
}

const forever = `trap 'exit 5' INT; while :; do sleep 0.05; done`

func (n *node) create(s apis.ContainerSpec) string {
	n.t.Helper()
	id, err := n.Create(n.t.Context(), s)
	if err != nil {
		n.t.Fatal(err)
	}
	return id
}

func (n *node) start(s apis.ContainerSpec) string {
	n.t.Helper()
	id := n.create(s)
	if err := n.Start(n.t.Context(), id); err != nil {
		n.t.Fatal(err)
	}
	return id
}

func (n *node) find(s apis.ContainerSpec) runtime.ContainerState {
	n.t.Helper()
	c, found, err := n.Find(n.t.Context(), s.EngineName)
	if err != nil || !found {
		n.t.Fatalf("find: found %v, error %v", found, err)
	}
	return c
}

// ended waits until a container's program ended.
func (n *node) ended(s apis.ContainerSpec) runtime.ContainerState {
	n.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); <-tick.C {
		if c := n.find(s); c.State == apis.ContainerExited {
			return c
		}
	}
	n.t.Fatal("it did not end within 20 s")
	return runtime.ContainerState{}
}

func (n *node) log(id string) string {
	n.t.Helper()
	r, err := n.Logs(n.t.Context(), id, runtime.LogOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(b)
}

// sh runs a shell command in a running container.
func (n *node) sh(id, script string) (string, int) {
	n.t.Helper()
	var out bytes.Buffer
	code, err := n.Exec(n.t.Context(), id, runtime.ExecSpec{Cmd: []string{"/bin/sh", "-c", script}},
		runtime.ExecStreams{Stdout: &out, Stderr: &out})
	if err != nil {
		n.t.Fatal(err)
	}
	return out.String(), code
}

func wantTerminal(t *testing.T, err error, reason string) {
	t.Helper()
	if terminal, ok := apis.AsTerminal(err); !ok || terminal.Reason != reason {
		t.Errorf("got error %v, want terminal with reason %s", err, reason)
	}
}
