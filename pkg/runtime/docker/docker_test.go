// SPDX-License-Identifier: Apache-2.0

package docker_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentd/pkg/apis"
	"agentd/pkg/runtime/docker"
	"agentd/test/e2e/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	agent  = "i-test"
	kernel = "5f0f3ba0-0f9e-4f1c-8f3e-000000000001"
	name   = "kernel.python." + kernel
	imgRef = "cr.example/stable/python:3.13"
)

// open returns a client of the engine for the agent.
func open(t *testing.T, host string, change ...func(*docker.Options)) *docker.Engine {
	t.Helper()
	opt := docker.Options{Host: host, AgentID: agent, CallTimeout: 20 * time.Second}
	for _, c := range change {
		c(&opt)
	}
	e, err := docker.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// eachAPI runs the test against an old and a newer engine that has one image.
func eachAPI(t *testing.T, test func(t *testing.T, fake *engine.Fake, e *docker.Engine)) {
	for _, api := range []string{"1.41", "1.45"} {
		t.Run("API "+api, func(t *testing.T) {
			fake := engine.NewFake(t, engine.WithAPI(api))
			fake.AddImage(imgRef, "amd64", map[string]string{"ai.backend.kernelspec": "1"}, []string{"PATH=/bin"})
			test(t, fake, open(t, fake.Host()))
		})
	}
}

func spec() apis.ContainerSpec {
	return apis.ContainerSpec{
		EngineName: name, Incarnation: 3, Image: imgRef, Hostname: "main1",
		Labels: map[string]string{apis.LabelKernelID: kernel, apis.LabelSessionID: "s1"},
	}
}

// create makes a container and starts it.
func create(t *testing.T, e *docker.Engine, s apis.ContainerSpec) string {
	t.Helper()
	id, err := e.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

// wantClass fails unless the error is of the class and says each of the words.
func wantClass(t *testing.T, err, class error, words ...string) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Fatalf("got error %v, want class %q", err, class)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// wantTerminal fails unless the error is terminal for the reason.
func wantTerminal(t *testing.T, err error, reason string, words ...string) {
	t.Helper()
	terminal, ok := apis.AsTerminal(err)
	if !ok || terminal.Reason != reason {
		t.Fatalf("got error %v, want terminal with reason %s", err, reason)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for name, opt := range map[string]docker.Options{
		"ssh":             {Host: "ssh://host", AgentID: agent},
		"/path":           {Host: "/path", AgentID: agent},
		"agent ID":        {},
		"opts.json":       {AgentID: agent, Overrides: []docker.Override{{Path: "/etc/opts.json", JSON: []byte("[]")}}},
		"HostConfig":      {AgentID: agent, Overrides: []docker.Override{{Path: "/etc/opts.json", JSON: []byte(`{"HostConfig":{"CapAdd":3}}`)}}},
		"does not fit":    {AgentID: agent, Overrides: []docker.Override{{Path: "/etc/opts.json", JSON: []byte(`{"Labels":[]}`)}}},
		"something follo": {AgentID: agent, Overrides: []docker.Override{{Path: "/etc/opts.json", JSON: []byte(`{} {}`)}}},
	} {
		if _, err := docker.New(opt); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got error %v, want one that says it", name, err)
		}
	}
}

func TestEngineAbsentThenUpgraded(t *testing.T) {
	fake := engine.NewFake(t, engine.WithAPI("1.41"))
	fake.Down()
	e := open(t, fake.Host())
	_, err := e.List(t.Context())
	wantClass(t, err, apis.ErrUnavailable, fake.Socket(), "dockerd", "DOCKER_HOST")

	fake.Up()
	info, err := e.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.API != "1.41" || info.NCPU != 8 || info.CgroupVersion != "2" || info.DefaultRuntime != "runc" || len(info.Runtimes) != 2 {
		t.Errorf("info = %+v", info)
	}
	if n := fake.Requests("HEAD", "/_ping"); n != 1 {
		t.Errorf("%d pings, want 1: the version is negotiated once", n)
	}

	// The engine is replaced by a newer one; the first call that fails is enough to notice.
	fake.Down()
	if _, err := e.List(t.Context()); err == nil {
		t.Fatal("a listing succeeded without an engine")
	}
	fake.SetAPI("1.52")
	fake.Up()
	if info, err = e.Info(t.Context()); err != nil || info.API != "1.52" {
		t.Errorf("after the upgrade: API %q, error %v, want 1.52", info.API, err)
	}
}

// TestEngineOverTCP also has to do without the unix socket's ways of telling limits.
func TestEngineOverTCP(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		if r.URL.Path != "/_ping" {
			_, _ = io.WriteString(w, `{"ServerVersion":"20.10.24","ApiVersion":"1.41"}`)
		}
	}))
	defer srv.Close()
	e := open(t, "tcp://"+srv.Listener.Addr().String())
	info, err := e.Info(t.Context())
	if err != nil || info.Version != "20.10.24" || info.UlimitCeilings != nil {
		t.Errorf("info %+v, error %v", info, err)
	}
	if !strings.HasPrefix(e.Host(), "tcp://127.0.0.1:") {
		t.Errorf("host %q", e.Host())
	}
}

func TestEngineOlderThanSupported(t *testing.T) {
	fake := engine.NewFake(t, engine.WithAPI("1.39"))
	_, err := open(t, fake.Host()).List(t.Context())
	wantTerminal(t, err, apis.ReasonInvalid, "1.39", "1.40")
}

func TestSilentEngineIsUnavailable(t *testing.T) {
	fake := engine.NewFake(t)
	e := open(t, fake.Host(), func(o *docker.Options) { o.CallTimeout = 50 * time.Millisecond })
	if _, err := e.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	fake.Add(engine.Rule{Path: "/containers/json", Hold: true})
	_, err := e.List(t.Context())
	wantClass(t, err, apis.ErrUnavailable, "no answer in time")
}
