// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/runtime/docker"
	"agentd/test/e2e/engine"
)

func TestInfo(t *testing.T) {
	info, err := open(t).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Version == "" || info.API == "" || info.NCPU < 1 || info.MemBytes == 0 || info.RootDir == "" || info.DefaultRuntime == "" ||
		info.CgroupVersion == "" || info.SwarmState == "" {
		t.Errorf("incomplete: %+v", info)
	}
}

func TestContainerLife(t *testing.T) {
	n := open(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("from the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	s := n.spec("k1", `echo "$A $(hostname) $(cat /data/f) $(pwd)"; `+forever)
	s.Env, s.WorkingDir = []string{"A=1"}, "/tmp"
	s.Mounts = []apis.Mount{{Source: dir, Target: "/data", ReadOnly: true}}
	s.Ports = []apis.PortLease{{Service: "sshd", Container: 2200, HostIP: "127.0.0.1", Host: port}}
	s.ExposedPorts = []int{8080}
	s.MemoryBytes, s.ShmBytes, s.CapAdd = 64<<20, 1<<20, []string{"IPC_LOCK", "SYS_NICE"}

	id := n.create(s)
	if c := n.find(s); c.State != apis.ContainerCreated || c.Hash != apis.ContainerHash(s) || c.Incarnation != 1 || c.KernelID != "k1" {
		t.Errorf("created: %+v", c)
	}
	for range 2 {
		if err := n.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	c := n.find(s)
	want := apis.PortLease{Container: 2200, HostIP: "127.0.0.1", Host: port}
	if c.State != apis.ContainerRunning || len(c.Ports) != 1 || c.Ports[0] != want {
		t.Errorf("running: %+v", c)
	}
	if out, _ := n.sh(id, "ulimit -c >/dev/null; df -k /dev/shm | tail -1; touch /data/x || echo read-only"); !strings.Contains(out, "1024") || !strings.Contains(out, "read-only") {
		t.Errorf("inside: %q", out)
	}
	if err := n.Stop(t.Context(), id, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if c := n.find(s); c.State != apis.ContainerExited || c.ExitCode != 5 {
		t.Errorf("stopped: %+v, want exit code 5 by its own trap", c)
	}
	if got := n.log(id); got != "1 main1 from the host /tmp\r\n" {
		t.Errorf("log %q", got)
	}
	list, err := n.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ExitCode != 5 || list[0].Hash != apis.ContainerHash(s) {
		t.Errorf("list %+v, error %v", list, err)
	}
	for range 2 {
		if err := n.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if _, found, err := n.Find(t.Context(), s.EngineName); found || err != nil {
		t.Errorf("removed: found %v, error %v", found, err)
	}
	if err := n.Start(t.Context(), id); !errors.Is(err, apis.ErrNotFound) {
		t.Errorf("start of what is gone: %v", err)
	}
}

func TestStopKillsAfterTheGrace(t *testing.T) {
	n := open(t)
	s := n.spec("k1", `trap '' INT; while :; do sleep 0.05; done`)
	id := n.start(s)
	if err := n.Stop(t.Context(), id, time.Second); err != nil {
		t.Fatal(err)
	}
	if c := n.find(s); c.State != apis.ContainerExited || c.ExitCode != 137 {
		t.Errorf("got %+v, want exit code 137", c)
	}
}

// TestStopWhenTheEngineHangs is B021.
func TestStopWhenTheEngineHangs(t *testing.T) {
	n := open(t, func(o *docker.Options) { o.CallTimeout = 3 * time.Second })
	s := n.spec("k1", forever)
	id := n.start(s)
	n.proxy.Add(engine.Rule{Method: "POST", Path: "/stop", Hold: true})
	if err := n.Stop(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if c := n.ended(s); c.ExitCode != 137 {
		t.Errorf("got %+v, want it killed", c)
	}
}

func TestOutOfMemory(t *testing.T) {
	n := open(t)
	s := n.spec("k1", `head -c 200000000 /dev/zero | tail -c 190000000 >/dev/null`)
	s.MemoryBytes = 16 << 20
	n.start(s)
	if c := n.ended(s); c.ExitCode == 0 {
		t.Errorf("got %+v, want it to have failed for want of memory", c)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestPortInUse(t *testing.T) {
	n := open(t)
	l := listen(t, "127.0.0.1:0")
	defer func() { _ = l.Close() }()
	foreign := l.Addr().(*net.TCPAddr).Port
	own := freePort(t)
	first := n.spec("k0", forever)
	first.Ports = []apis.PortLease{{Container: 80, HostIP: "127.0.0.1", Host: own}}
	n.start(first)
	for i, port := range []int{foreign, own} {
		s := n.spec(fmt.Sprintf("k%d", i+1), forever)
		s.Ports = []apis.PortLease{{Container: 80, HostIP: "127.0.0.1", Host: port}}
		id := n.create(s)
		var inUse *apis.PortInUseError
		if err := n.Start(t.Context(), id); !errors.As(err, &inUse) || inUse.Port != port {
			t.Errorf("got %v, want port %d in use", err, port)
		}
		if c := n.find(s); c.State != apis.ContainerCreated {
			t.Errorf("afterwards %+v, want it created", c)
		}
	}
}

func TestWhatCannotStart(t *testing.T) {
	n := open(t)
	lost := filepath.Join(t.TempDir(), "lost")
	if err := os.Mkdir(lost, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*apis.ContainerSpec)
		reason string
	}{
		"mount missing": {func(s *apis.ContainerSpec) { s.Mounts = []apis.Mount{{Source: "/no/such", Target: "/x"}} }, apis.ReasonMountMissing},
		"mount lost":    {func(s *apis.ContainerSpec) { s.Mounts = []apis.Mount{{Source: lost, Target: "/x"}} }, apis.ReasonMountMissing},
		"mount twice": {func(s *apis.ContainerSpec) {
			s.Mounts = []apis.Mount{{Source: "/tmp", Target: "/x"}, {Source: "/tmp", Target: "/x"}}
		}, apis.ReasonInvalid},
		"no such user":   {func(s *apis.ContainerSpec) { s.User = "nobody-of-that-name" }, apis.ReasonInvalid},
		"no such device": {func(s *apis.ContainerSpec) { s.Devices = []string{"/dev/no-such"} }, apis.ReasonInvalid},
		"no such CPU":    {func(s *apis.ContainerSpec) { s.CpusetCpus = "4095" }, apis.ReasonInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := n.spec(strings.ReplaceAll(name, " ", "-"), "true")
			tc.change(&s)
			id, err := n.Create(t.Context(), s)
			if err == nil {
				_ = os.Remove(lost)
				err = n.Start(t.Context(), id)
			}
			wantTerminal(t, err, tc.reason)
		})
	}
	s := n.spec("no-image", "true")
	s.Image = "agentd.local/none:1"
	if _, err := n.Create(t.Context(), s); !errors.Is(err, apis.ErrNotFound) {
		t.Errorf("image that is not there: %v", err)
	}
	// The init that every kernel has reports a program that is not there.
	s = n.spec("no-program", "true")
	s.Entrypoint = []string{"/no/such"}
	n.start(s)
	if c := n.ended(s); c.ExitCode != 127 {
		t.Errorf("program that is not there: %+v, want exit code 127", c)
	}
}

// TestUlimits holds the ceilings that are read off the host against the engine.
func TestUlimits(t *testing.T) {
	direct, err := docker.New(docker.Options{Host: os.Getenv("DOCKER_HOST"), AgentID: "i"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = direct.Close() }()
	info, err := direct.Info(t.Context()) // the proxy's host process is this test
	if err != nil {
		t.Fatal(err)
	}
	n := open(t)
	ceiling, clamped := info.UlimitCeilings["nofile"]
	for _, limit := range []int64{1024, 1 << 20} {
		s := n.spec(fmt.Sprint("k", limit), "true")
		s.Ulimits = []apis.Ulimit{{Name: "nofile", Soft: limit, Hard: limit}}
		err := n.Start(t.Context(), n.create(s))
		if clamped && ceiling >= 0 && limit > ceiling {
			wantTerminal(t, err, apis.ReasonInvalid)
			if err != nil && !strings.Contains(err.Error(), "nofile") {
				t.Errorf("%v does not name the limit", err)
			}
		} else if err != nil {
			t.Errorf("limit %d below the ceiling %d: %v", limit, ceiling, err)
		}
	}
}

func TestNameIsTaken(t *testing.T) {
	mine, other := open(t), open(t)
	s := mine.spec("k1", "true")
	other.create(s)
	if _, err := mine.Create(t.Context(), s); !errors.Is(err, apis.ErrConflict) {
		t.Errorf("create: %v, want a conflict", err)
	}
	if _, _, err := mine.Find(t.Context(), s.EngineName); !errors.Is(err, apis.ErrConflict) || !strings.Contains(err.Error(), other.id) {
		t.Errorf("find: %v, want a conflict with %s", err, other.id)
	}
	if list, err := mine.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("list %v, error %v", list, err)
	}
}

func TestLostAnswerOfCreate(t *testing.T) {
	n := open(t)
	s := n.spec("k1", "true")
	n.proxy.Add(engine.Rule{Method: "POST", Path: "/containers/create", Nth: 1, LoseAnswer: true})
	if _, err := n.Create(t.Context(), s); !errors.Is(err, apis.ErrUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
	if c := n.find(s); c.Hash != apis.ContainerHash(s) {
		t.Errorf("found %+v", c)
	}
}

func TestRegistryThatIsNotThere(t *testing.T) {
	err := open(t).Images().Pull(t.Context(), apis.ImageRef{Canonical: "localhost:1/x/y:1"}, nil)
	if !errors.Is(err, apis.ErrUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
}

// TestRegistries puts a registry of the test's own before the engine. Engines
// take one on the loopback address without TLS.
func TestRegistries(t *testing.T) {
	n := open(t)
	for reason, h := range map[string]http.HandlerFunc{
		apis.ReasonImageMissing: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v2/" {
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
		},
		apis.ReasonUnauthorized: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Www-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`)
		},
	} {
		l := listen(t, "127.0.0.1:0")
		srv := &http.Server{Handler: h}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(l) }()
		for _, password := range []apis.Secret{"", "wrong"} {
			ref := apis.ImageRef{Canonical: l.Addr().String() + "/stable/x:1", Username: "u", Password: password}
			wantTerminal(t, n.Images().Pull(t.Context(), ref, nil), reason)
		}
		_ = srv.Close()
		<-done
	}
}
