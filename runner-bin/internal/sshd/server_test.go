// SPDX-License-Identifier: Apache-2.0

package sshd_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"agentd/runner-bin/internal/sshd"
	"agentd/runner-bin/internal/sshd/sshdtest"
)

func TestMain(m *testing.M) { os.Exit(sshdtest.Main(m.Run)) }

// session opens a session on a fresh server.
func session(t *testing.T, client *ssh.Client) *ssh.Session {
	t.Helper()
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// ended describes the end of a session.
func ended(err error) string {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return "exit 0"
	case errors.As(err, &exit) && exit.Signal() != "":
		return "signal " + exit.Signal()
	case errors.As(err, &exit):
		return fmt.Sprintf("exit %d", exit.ExitStatus())
	}
	return err.Error()
}

func TestExec(t *testing.T) {
	client := sshdtest.Start(t, nil).Dial(t)
	tests := []struct {
		command, stdin, stdout, stderr, end string
	}{
		{"echo out; echo err >&2", "", "out\n", "err\n", "exit 0"},
		{"exit 42", "", "", "", "exit 42"},
		{"cat; echo end", "hello", "helloend\n", "", "exit 0"},
		{"kill -TERM $$", "", "", "", "signal TERM"},
		{"kill -KILL $$", "", "", "", "signal KILL"},
		{"no-such-program-here 2>/dev/null", "", "", "", "exit 127"},
		{"echo $BACKENDAI_CLUSTER_HOST; basename $PWD; basename $HOME", "", "sub1\nwork\nwork\n", "", "exit 0"},
		{"test -n \"$SSH_CONNECTION\" && test -n \"$SSH_CLIENT\" && test ! -t 0", "", "", "", "exit 0"},
		{"head -c 1 >/dev/null", strings.Repeat("more than is read", 100_000), "", "", "exit 0"},
	}
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			s := session(t, client)
			var stdout, stderr bytes.Buffer
			s.Stdout, s.Stderr = &stdout, &stderr
			stdin, err := s.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Start(tt.command); err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(stdin, tt.stdin)
			_ = stdin.Close()
			if end := ended(s.Wait()); end != tt.end {
				t.Errorf("%s, want %s (stderr %q)", end, tt.end, stderr.String())
			}
			if stdout.String() != tt.stdout || stderr.String() != tt.stderr {
				t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
			}
		})
	}
}

// TestLargeOutput loses nothing of an output that ends together with its program.
func TestLargeOutput(t *testing.T) {
	client := sshdtest.Start(t, nil).Dial(t)
	s := session(t, client)
	out, err := s.Output("head -c 5242880 /dev/zero")
	if err != nil || len(out) != 5<<20 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	s = session(t, client)
	if err := s.RequestPty("xterm", 24, 80, nil); err != nil {
		t.Fatal(err)
	}
	out, err = s.Output("head -c 1048576 /dev/zero | tr '\\0' x")
	if err != nil || len(out) != 1<<20 {
		t.Errorf("through a terminal: %d bytes, %v", len(out), err)
	}
}

func TestSignalRequest(t *testing.T) {
	client := sshdtest.Start(t, nil).Dial(t)
	for _, tt := range []struct {
		signal ssh.Signal
		end    string
	}{{ssh.SIGTERM, "exit 9"}, {ssh.SIGKILL, "signal KILL"}} {
		s := session(t, client)
		out, err := s.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start("trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		if err := s.Signal(tt.signal); err != nil {
			t.Fatal(err)
		}
		if end := ended(s.Wait()); end != tt.end {
			t.Errorf("after %s: %s, want %s", tt.signal, end, tt.end)
		}
	}
}

func TestTerminal(t *testing.T) {
	client := sshdtest.Start(t, nil).Dial(t)
	s := session(t, client)
	if err := s.RequestPty("vt220", 30, 100, nil); err != nil {
		t.Fatal(err)
	}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out sshdtest.Log
	s.Stdout = &out
	if err := s.Start(`test -t 0 && test -t 1 && test -t 2 && echo $TERM $SSH_TTY; stty size; read line; stty size; exit 3`); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return strings.Contains(out.String(), "30 100") })
	if err := s.WindowChange(50, 132); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, "go\n")
	if end := ended(s.Wait()); end != "exit 3" {
		t.Errorf("%s", end)
	}
	if got := out.String(); !strings.HasPrefix(got, "vt220 /dev/pts/") || !strings.Contains(got, "50 132") {
		t.Errorf("output %q", got)
	}
}

// TestLoginShell types into a shell, which ends at the end of input.
func TestLoginShell(t *testing.T) {
	client := sshdtest.Start(t, nil).Dial(t)
	s := session(t, client)
	var out bytes.Buffer
	s.Stdout = &out
	s.Stdin = strings.NewReader("echo $0\nexit 5\n")
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	if end := ended(s.Wait()); end != "exit 5" || out.String() != "-sh\n" {
		t.Errorf("%s, %q", end, out.String())
	}
}

// TestTerminalHeldOpen closes a session whose shell has ended although something still holds its terminal.
func TestTerminalHeldOpen(t *testing.T) {
	client := sshdtest.Start(t, nil).Dial(t)
	s := session(t, client)
	if err := s.RequestPty("xterm", 24, 80, nil); err != nil {
		t.Fatal(err)
	}
	out, err := s.Output("trap '' HUP; sleep 30 & echo $!; exit 4")
	if end := ended(err); end != "exit 4" {
		t.Errorf("%s", end)
	}
	kill(t, string(out))
}

func kill(t *testing.T, text string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// TestHangUp ends a program whose client goes away, with a channel or with the connection.
func TestHangUp(t *testing.T) {
	k := sshdtest.Start(t, nil)
	client := k.Dial(t)
	for name, leave := range map[string]func(*ssh.Session, *ssh.Client){
		"channel":    func(s *ssh.Session, _ *ssh.Client) { _ = s.Close() },
		"connection": func(_ *ssh.Session, c *ssh.Client) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "hup")
			own, err := k.Login("work", k.Signer)
			if err != nil {
				t.Fatal(err)
			}
			defer own.Close()
			s := session(t, own)
			out, err := s.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Start("trap 'echo hup >" + file + "; exit' HUP; echo ready; exec 2>/dev/null; while :; do sleep 0.05; done"); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
			leave(s, own)
			waitFor(t, func() bool {
				_, err := os.Stat(file)
				return err == nil
			})
		})
	}
	// Other connections go on.
	if _, err := session(t, client).Output("true"); err != nil {
		t.Error(err)
	}
}

// waitFor looks again until something is so.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !so() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("it does not happen")
		}
	}
}

func TestEnv(t *testing.T) {
	client := sshdtest.Start(t, nil).Dial(t)
	s := session(t, client)
	for name, wanted := range map[string]bool{
		"LC_ALL": true, "MY_VAR": true, "LD_PRELOAD": false, "LD_LIBRARY_PATH": false, "A=B": false, "": false,
	} {
		if err := s.Setenv(name, "value of "+name); (err == nil) != wanted {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := s.Setenv("BIG", strings.Repeat("x", 1<<16)); err == nil {
		t.Error("a huge variable was taken")
	}
	out, err := s.Output(`echo "$LC_ALL,$MY_VAR,$LD_PRELOAD$LD_LIBRARY_PATH"`)
	if err != nil || string(out) != "value of LC_ALL,value of MY_VAR,\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestManyChannels(t *testing.T) {
	client := sshdtest.Start(t, nil).Dial(t)
	results := make(chan error, 8)
	for i := range cap(results) {
		go func() {
			s, err := client.NewSession()
			if err != nil {
				results <- err
				return
			}
			defer s.Close()
			out, err := s.Output("echo " + strconv.Itoa(i))
			if err == nil && string(out) != strconv.Itoa(i)+"\n" {
				err = fmt.Errorf("output %q", out)
			}
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestRequests(t *testing.T) {
	client := sshdtest.Start(t, nil).Dial(t)
	if ok, _, err := client.SendRequest("keepalive@openssh.com", true, nil); err != nil || !ok {
		t.Errorf("keep-alive: %v, %v", ok, err)
	}
	if ok, _, err := client.SendRequest("unknown@example.com", true, nil); err != nil || ok {
		t.Errorf("unknown request: %v, %v", ok, err)
	}
	if _, _, err := client.OpenChannel("x11", nil); err == nil {
		t.Error("an unknown channel was opened")
	}
	s := session(t, client)
	if err := s.RequestSubsystem("netconf"); err == nil {
		t.Error("an unknown subsystem was started")
	}
	for _, request := range []string{"exec", "pty-req", "env", "window-change", "signal", "subsystem"} {
		if ok, err := session(t, client).SendRequest(request, true, []byte{1}); err != nil || ok {
			t.Errorf("malformed %s: %v, %v", request, ok, err)
		}
	}
}

func TestSFTP(t *testing.T) {
	k := sshdtest.Start(t, nil)
	files, err := sftp.NewClient(k.Dial(t))
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if dir, err := files.Getwd(); err != nil || dir != k.Home {
		t.Errorf("starts in %s, %v", dir, err)
	}
	f, err := files.Create("file")
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Chmod(0o640), f.Close()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(k.Home, "file"))
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestCloseEndsEverything stops a server with a program running and a login under way.
func TestCloseEndsEverything(t *testing.T) {
	k := sshdtest.Start(t, nil)
	s := session(t, k.Dial(t))
	if err := s.Start("sleep 60"); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Dial("tcp", k.Server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	k.Server.Close()
	if err := s.Wait(); err == nil {
		t.Error("the session ended well")
	}
	if _, err := k.Login("work", k.Signer); err == nil {
		t.Error("a closed server lets people in")
	}
}

func TestPortInUse(t *testing.T) {
	k := sshdtest.Start(t, nil)
	if _, err := sshd.Listen(k.Server.Addr().String(), sshd.Config{HostKey: k.Signer}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("error %v", err)
	}
}
