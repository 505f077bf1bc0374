// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentd/pkg/apis/record"
	"agentd/pkg/runtime/runner"
	"agentd/runner-bin/internal/layout"
)

// bench is a container in a temporary directory.
type bench struct {
	t       *testing.T
	kernel  *Kernel
	signals chan os.Signal
	port    int
	code    chan int
	log     string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, signals: make(chan os.Signal, 1), code: make(chan int, 1), log: filepath.Join(t.TempDir(), "log")}
	l := layout.Layout{Root: t.TempDir()}
	for _, dir := range []string{layout.Work, layout.Config + "/ssh", filepath.Dir(layout.RunSocket), "/bin"} {
		if err := os.MkdirAll(l.At(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/bin/sh", l.At("/bin/sh")); err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(b.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = output.Close() })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("not a TCP address")
	}
	b.port = tcp.Port
	_ = listener.Close()
	b.kernel = &Kernel{
		Layout: l, Environ: []string{"PATH=/bin:/usr/bin"}, Stdout: output, Stderr: output, Version: "test",
		Self: []string{"/proc/self/exe"}, Listen: "127.0.0.1", Signals: b.signals,
	}
	b.write(layout.IntrinsicPorts, fmt.Sprintf(`{"sshd": %d, "ttyd": 1}`, b.port))
	return b
}

func (b *bench) write(path, text string) {
	b.t.Helper()
	if err := os.WriteFile(b.kernel.Layout.At(path), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) output() string {
	b.t.Helper()
	data, err := os.ReadFile(b.log)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// start runs the kernel; it has ended when the test has.
func (b *bench) start(command ...string) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.code <- b.kernel.Run(command)
	}()
	b.t.Cleanup(func() {
		select {
		case b.signals <- syscall.SIGTERM:
		case <-ended:
		}
		<-ended
		close(b.signals)
	})
}

func (b *bench) ready() runner.Status {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	status, err := runner.WaitReady(ctx, b.runDir())
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.output())
	}
	return status
}

func (b *bench) runDir() string { return filepath.Dir(b.kernel.Layout.At(layout.RunSocket)) }

// stop sends the stop signal and returns the exit code.
func (b *bench) stop() int {
	b.signals <- syscall.SIGINT
	return <-b.code
}

func TestWithoutCommand(t *testing.T) {
	b := newBench(t)
	b.write(layout.EnvironText, "FROM_AGENT=yes\n")
	b.start()
	status := b.ready()
	if status.Version != "test" || status.Stage != record.StageRunning || status.Command.State != record.CommandNone ||
		status.SSH.Port != b.port || status.SSH.Problem != "" || len(status.Warnings) != 0 || status.StartedAt.IsZero() {
		t.Errorf("%+v", status)
	}

	data, err := os.ReadFile(b.kernel.Layout.At(layout.ContainerKey))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	client, err := ssh.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", b.port), &ssh.ClientConfig{
		User: "work", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := session.Output("echo $FROM_AGENT; pwd"); err != nil || string(out) != "yes\n"+b.kernel.Layout.At(layout.Work)+"\n" {
		t.Errorf("%q, %v", out, err)
	}

	start := time.Now()
	if code := b.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if took := time.Since(start); took > time.Second { // 50 ms is the aim; the test's machine is busy
		t.Errorf("stopping took %s", took)
	}
	if _, err := os.Stat(b.kernel.Layout.At(layout.RunSocket)); err == nil {
		t.Error("the socket is left behind")
	}
	if b.output() != "" {
		t.Errorf("output %q", b.output())
	}
}

func TestCommand(t *testing.T) {
	tests := []struct {
		command []string
		code    int
		output  string
	}{
		{[]string{"sh", "-c", "echo $0 $1 $HOME; exit 3", "a", "b c"}, 3, "a b c /home/work\n"},
		{[]string{"sh", "-c", "kill -KILL $$"}, 137, ""},
		{[]string{"no-such-program-here"}, 127, "cannot run no-such-program-here"},
		{[]string{"/bin"}, 127, "cannot run /bin"},
		{[]string{"broken"}, 126, "cannot run broken"},
	}
	for _, tt := range tests {
		t.Run(tt.command[0], func(t *testing.T) {
			b := newBench(t)
			if err := os.WriteFile(b.kernel.Layout.At("/bin/broken"), []byte("\x7fELF"), 0o755); err != nil {
				t.Fatal(err)
			}
			b.start(tt.command...)
			if code := <-b.code; code != tt.code || !strings.Contains(b.output(), tt.output) {
				t.Errorf("exit %d, output %q", code, b.output())
			}
		})
	}
}

// TestSignals passes signals on to the command and ends it, and what it started, when told to stop.
func TestSignals(t *testing.T) {
	b := newBench(t)
	b.start("sh", "-c", "trap 'echo usr1' USR1; echo $$ > pid; while :; do sleep 0.05; done")
	status := b.ready()
	if status.Command.State != record.CommandRunning || status.Command.PID == 0 {
		t.Errorf("%+v", status.Command)
	}
	b.waitFor(func() bool {
		_, err := os.Stat(b.kernel.Layout.At(layout.Work + "/pid"))
		return err == nil
	})
	b.signals <- syscall.SIGUSR1
	b.waitFor(func() bool { return strings.Contains(b.output(), "usr1") })
	if code := b.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	b.waitFor(func() bool { return syscall.Kill(-status.Command.PID, 0) != nil }) // nothing of it is left
}

// TestStubbornCommand kills what does not end.
func TestStubbornCommand(t *testing.T) {
	b := newBench(t)
	b.start("sh", "-c", "trap '' TERM; echo ignoring; while :; do sleep 0.05; done")
	b.waitFor(func() bool { return strings.Contains(b.output(), "ignoring") })
	start := time.Now()
	if code := b.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if took := time.Since(start); took < termWait {
		t.Errorf("killed after %s already", took)
	}
}

func (b *bench) waitFor(so func() bool) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !so() {
		select {
		case <-tick.C:
		case <-limit:
			b.t.Fatalf("it does not happen\n%s", b.output())
		}
	}
}

// TestBootstrap answers the agent while the user's script runs, and is ready only after it.
func TestBootstrap(t *testing.T) {
	b := newBench(t)
	b.write(layout.UserBootstrap, "echo booting in $(basename $PWD) as $FROM_AGENT\nwhile [ ! -e go ]; do sleep 0.01; done\nexit 3\n")
	data, err := json.Marshal(map[string]string{"FROM_AGENT": "line 1\nline 2"})
	if err != nil {
		t.Fatal(err)
	}
	b.write(layout.EnvironJSON, string(data))
	b.start("sh", "-c", "echo command; exec sleep 60")
	b.waitFor(func() bool { return strings.Contains(b.output(), "booting in work as line 1 line 2") })

	client, err := runner.Dial(t.Context(), b.runDir())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	status, err := client.Status(t.Context())
	if err != nil || status.Ready || status.Stage != record.StageBootstrap || status.Command.State != record.CommandPending {
		t.Errorf("%+v, %v", status, err)
	}
	if strings.Contains(b.output(), "command") {
		t.Error("the command was started before the script ended")
	}
	b.write(layout.Work+"/go", "")
	status = b.ready()
	if len(status.Warnings) != 1 || !strings.Contains(status.Warnings[0], "exit code 3") {
		t.Errorf("warnings %q", status.Warnings)
	}
}

// TestStopDuringBootstrap ends the script and never starts the command.
func TestStopDuringBootstrap(t *testing.T) {
	b := newBench(t)
	b.write(layout.UserBootstrap, "echo booting; sleep 60\n")
	b.start("sh", "-c", "echo command")
	b.waitFor(func() bool { return strings.Contains(b.output(), "booting") })
	if code := b.stop(); code != 0 || strings.Contains(b.output(), "command") {
		t.Errorf("exit %d, output %q", code, b.output())
	}
}

// TestThingsMissing runs kernels whose surroundings are not as they should be.
func TestThingsMissing(t *testing.T) {
	t.Run("port in use", func(t *testing.T) {
		b := newBench(t)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", b.port))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		b.start()
		if status := b.ready(); !strings.Contains(status.SSH.Problem, "in use") || len(status.Warnings) != 1 {
			t.Errorf("%+v", status)
		}
	})
	t.Run("no shell", func(t *testing.T) {
		b := newBench(t)
		if err := os.Remove(b.kernel.Layout.At("/bin/sh")); err != nil {
			t.Fatal(err)
		}
		b.write(layout.UserBootstrap, "echo never\n")
		b.start()
		if status := b.ready(); len(status.Warnings) != 1 || !strings.Contains(status.Warnings[0], "no shell") {
			t.Errorf("%+v", status)
		}
	})
	t.Run("no run directory", func(t *testing.T) {
		b := newBench(t)
		if err := os.Remove(b.runDir()); err != nil {
			t.Fatal(err)
		}
		b.start("sh", "-c", "exit 4")
		if code := <-b.code; code != 4 || !strings.Contains(b.output(), "listen for the agent") {
			t.Errorf("exit %d, output %q", code, b.output())
		}
	})
	t.Run("no home", func(t *testing.T) {
		b := newBench(t)
		if err := os.Remove(b.kernel.Layout.At(layout.Work)); err != nil {
			t.Fatal(err)
		}
		b.start("sh", "-c", "exit 4")
		if code := <-b.code; code != 4 || !strings.Contains(b.output(), "home directory") {
			t.Errorf("exit %d, output %q", code, b.output())
		}
	})
	t.Run("damaged configuration", func(t *testing.T) {
		b := newBench(t)
		b.write(layout.IntrinsicPorts, `{"sshd": 70000}`)
		b.write(layout.HostKey, "no key")
		b.write(layout.EnvironJSON, "[")
		b.start("sh", "-c", "exit 4")
		if code := <-b.code; code != 4 {
			t.Errorf("exit %d", code)
		}
		for _, says := range []string{"70000", "ssh_host_rsa_key is damaged", "environ.json is damaged"} {
			if !strings.Contains(b.output(), says) {
				t.Errorf("nothing is said about %s:\n%s", says, b.output())
			}
		}
	})
}
