// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"agentd/test/admintest"
)

// inTerminal runs a command line in a process of its own with a terminal for
// all streams, and returns what the terminal showed.
func inTerminal(t *testing.T, agentd string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), agentd, args...)
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 99})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Close() }()
	var shown bytes.Buffer
	_, _ = io.Copy(&shown, master) // ends with an error when the process has
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return shown.String(), cmd.ProcessState.ExitCode()
}

func TestTerminals(t *testing.T) {
	dir, err := os.MkdirTemp("", "tty") //nolint:usetesting // t.TempDir has names that are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d, err := admintest.Start(t.Context(), dir, admintest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Stop() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agentd := filepath.Join(dir, "agentd") // by this name the test binary is agentd
	if err := os.Symlink(self, agentd); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGENTD_SOCKET", d.Socket)
	t.Setenv("TERM", "vt100")

	shown, code := inTerminal(t, agentd, "apply", "-f", filepath.Join("..", "..", "examples", "cluster.yaml"))
	if code != exitOK || !strings.Contains(shown, "\x1b[2K") || !strings.Contains(shown, "3 kernels ready in") {
		t.Errorf("apply: exit code %d, %q", code, shown)
	}
	shown, code = inTerminal(t, agentd, "exec", "-it", "demo/main1", "--", "env")
	if code != exitOK || !strings.Contains(shown, "TERM=vt100") {
		t.Errorf("exec: exit code %d, %q", code, shown)
	}
	shown, code = inTerminal(t, agentd, "ssh", "demo/sub1")
	if code != exitOK || !strings.Contains(shown, `shell line ""`) {
		t.Errorf("ssh: exit code %d, %q", code, shown)
	}
	if _, code = inTerminal(t, agentd, "exec", "-it", "demo/main1", "--", "exit", "9"); code != 9 {
		t.Errorf("exit code %d, want 9", code)
	}
}
