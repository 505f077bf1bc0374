// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// socketPath is short enough for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "adm") //nolint:usetesting // t.TempDir has names that are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func TestListen(t *testing.T) {
	path := filepath.Join(filepath.Dir(socketPath(t)), "sub", "s")
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "another agentd answers there") || !strings.Contains(err.Error(), path) {
		t.Errorf("a second daemon: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket file is still there: %v", err)
	}
}

func TestListenReplacesStaleSocket(t *testing.T) {
	path := socketPath(t)
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close() // as a killed daemon leaves it
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestListenTouchesNothingElse(t *testing.T) {
	path := socketPath(t)
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "something else than a socket") {
		t.Errorf("a file in the way: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// TestCloseLeavesSuccessor makes sure that a daemon that ends late does not
// take the socket of the next one away.
func TestCloseLeavesSuccessor(t *testing.T) {
	path := socketPath(t)
	old, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	next, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }()
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestListenUnusable(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "file", "s"), filepath.Join(dir, strings.Repeat("x", 200))} {
		if _, err := Listen(path); err == nil || !strings.Contains(err.Error(), "agentd.admin-socket") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestPeers(t *testing.T) {
	for _, x := range []struct {
		peer, own int
		ok        bool
	}{{0, 0, true}, {0, 1000, true}, {1000, 1000, true}, {1000, 0, false}, {1001, 1000, false}} {
		if err := allowed(x.peer, x.own); (err == nil) != x.ok {
			t.Errorf("peer %d of a daemon of %d: %v", x.peer, x.own, err)
		}
	}
	path := socketPath(t)
	ln, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	if err := checkPeer(server); err != nil {
		t.Errorf("our own user is refused: %v", err)
	}
}
