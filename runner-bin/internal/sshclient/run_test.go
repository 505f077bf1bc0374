// SPDX-License-Identifier: Apache-2.0

package sshclient_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"agentd/runner-bin/internal/layout"
	"agentd/runner-bin/internal/sshclient"
	"agentd/runner-bin/internal/sshd"
	"agentd/runner-bin/internal/sshd/sshdtest"
)

func TestMain(m *testing.M) { os.Exit(sshdtest.Main(m.Run)) }

// run runs the client and returns its exit code and output.
func run(t *testing.T, k *sshdtest.Kernel, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	go func() {
		_, _ = writer.WriteString(stdin)
		_ = writer.Close()
	}()
	var out, errs bytes.Buffer
	code = k.Client.Run(args, sshclient.Streams{
		Stdin: reader, Stdout: &out, Stderr: &errs, Environ: []string{"LC_ALL=C", "SECRET=x"},
	})
	return code, out.String(), errs.String()
}

func TestCommands(t *testing.T) {
	k := sshdtest.Start(t, nil)
	tests := []struct {
		name, stdin    string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"output", "", []string{"sub1", "echo", "a", ";", "echo", "b", ">&2"}, 0, "a\n", "b\n"},
		{"exit code", "", []string{"sub1", "exit 42"}, 42, "", ""},
		{"signal", "", []string{"sub1", "kill -9 $$"}, 255, "", ""},
		{"input", "hello", []string{"sub1", "cat"}, 0, "hello", ""},
		{"no input", "hello", []string{"-n", "sub1", "cat"}, 0, "", ""},
		{"input nobody reads", strings.Repeat("x", 1<<20), []string{"sub1", "true"}, 0, "", ""},
		{"shell", "echo $BACKENDAI_CLUSTER_HOST\nexit 3\n", []string{"sub1"}, 3, "sub1\n", ""},
		{"terminal by force", "", []string{"-tt", "sub1", "test -t 0 && echo yes"}, 0, "yes\r\n", ""},
		{"no terminal for one that is none", "", []string{"-t", "sub1", "test -t 0 || echo no"}, 0, "no\n", ""},
		{"variables", "", []string{"-o", "SendEnv=LC_*", "-o", "SetEnv=A=1", "sub1", "echo $LC_ALL$SECRET$A"}, 0, "C1\n", ""},
		{"remote command", "", []string{"-o", "RemoteCommand=echo configured", "sub1"}, 0, "configured\n", ""},
		{"subsystem", "", []string{"-s", "sub1", "nothing"}, 255, "", ""},
		{"another user", "", []string{"root@sub1", "true"}, 255, "", ""},
		{"usage", "", nil, 255, "", "usage"},
		{"version", "", []string{"-V"}, 0, "", "bai-runner"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := run(t, k, tt.stdin, tt.args...)
			if code != tt.code || stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("exit %d, stdout %q, stderr %q, log %q", code, stdout, stderr, k.Log)
			}
		})
	}
	for _, says := range []string{"ended by signal KILL", "permission denied"} {
		if !strings.Contains(k.Log.String(), says) {
			t.Errorf("the log lacks %q: %q", says, k.Log)
		}
	}
	if _, err := os.Stat(k.Home + "/.ssh/known_hosts"); err == nil {
		t.Error("a host of the session was remembered")
	}
}

func TestLargeOutput(t *testing.T) {
	k := sshdtest.Start(t, nil)
	code, stdout, _ := run(t, k, "", "sub1", "head -c 5242880 /dev/zero")
	if code != 0 || len(stdout) != 5<<20 {
		t.Errorf("exit %d, %d bytes", code, len(stdout))
	}
}

func TestCannotConnect(t *testing.T) {
	k := sshdtest.Start(t, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"-p", port, "127.0.0.1", "true"}, "connect to host 127.0.0.1 port " + port},
		{[]string{"no-such-host.invalid", "true"}, "connect to host no-such-host.invalid port 22"},
	} {
		if code, _, _ := run(t, k, "", tt.args...); code != 255 || !strings.Contains(k.Log.String(), tt.says) {
			t.Errorf("exit %d, log %q", code, k.Log)
		}
	}
}

// TestConnectionLost ends with an error when the server goes away.
func TestConnectionLost(t *testing.T) {
	k := sshdtest.Start(t, nil)
	pid := filepath.Join(t.TempDir(), "pid")
	done := make(chan int)
	go func() {
		code, _, _ := run(t, k, "", "sub1", "echo $$ > "+pid+"; echo; sleep 60")
		done <- code
	}()
	for {
		if data, err := os.ReadFile(pid); err == nil && len(data) > 0 {
			break
		}
		select {
		case code := <-done:
			t.Fatalf("ended with %d", code)
		case <-time.After(5 * time.Millisecond):
		}
	}
	k.Server.Close()
	if code := <-done; code != 255 {
		t.Errorf("exit %d", code)
	}
}

// elsewhere returns arguments that reach the server as a host that is none of the session's.
func elsewhere(t *testing.T, k *sshdtest.Kernel, extra ...string) []string {
	t.Helper()
	host, port, err := net.SplitHostPort(k.Server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"-i", k.Layout.At(layout.ClusterKey), "-p", port}, append(extra, "work@"+host, "echo in")...)
}

func TestKnownHosts(t *testing.T) {
	k := sshdtest.Start(t, nil)
	known := k.Home + "/.ssh/known_hosts"
	try := func(want int, extra ...string) {
		t.Helper()
		if code, _, _ := run(t, k, "", elsewhere(t, k, extra...)...); code != want {
			t.Errorf("%v: exit %d, want %d; log %q", extra, code, want, k.Log)
		}
	}
	try(255, "-o", "StrictHostKeyChecking=yes")
	try(0, "-o", "UserKnownHostsFile=/dev/null")
	if _, err := os.Stat(known); err == nil {
		t.Error("the host is remembered too early")
	}
	try(0)
	first, err := os.ReadFile(known)
	if err != nil {
		t.Fatal(err)
	}
	try(0, "-o", "StrictHostKeyChecking=yes")
	if again, err := os.ReadFile(known); err != nil || !bytes.Equal(first, again) {
		t.Errorf("remembered again: %q, %v", again, err)
	}

	_, other := sshdtest.NewKey(t)
	address, _, _ := strings.Cut(string(first), " ")
	sshdtest.Write(t, known, append([]byte(address+" "), ssh.MarshalAuthorizedKey(other.PublicKey())...))
	try(255)
	if !strings.Contains(k.Log.String(), "has changed; if that is expected, remove line 1 of "+known) {
		t.Errorf("log %q", k.Log)
	}
	try(0, "-o", "StrictHostKeyChecking=no")
	sshdtest.Write(t, known, []byte("damaged"))
	try(255)
}

func TestLockedKey(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte("open sesame"))
	if err != nil {
		t.Fatal(err)
	}
	k := sshdtest.Start(t, nil)
	sshdtest.Write(t, k.Layout.At(layout.ClusterPub), ssh.MarshalAuthorizedKey(signer.PublicKey()))
	sshdtest.Write(t, k.Layout.At(layout.ClusterKey), pem.EncodeToMemory(block))

	if code, _, _ := run(t, k, "", elsewhere(t, k)...); code != 255 {
		t.Errorf("without a person: exit %d", code)
	}
	var asked string
	k.Client.Ask = func(prompt string) (string, error) {
		asked = prompt
		return "open sesame", nil
	}
	if code, stdout, _ := run(t, k, "", elsewhere(t, k)...); code != 0 || stdout != "in\n" || !strings.Contains(asked, "passphrase") {
		t.Errorf("exit %d, asked %q, log %q", code, asked, k.Log)
	}
	if code, _, _ := run(t, k, "", elsewhere(t, k, "-o", "BatchMode=yes")...); code != 255 {
		t.Errorf("in batch mode: exit %d", code)
	}
}

// TestAgent logs in with a key that only an agent has.
func TestAgent(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keyring, conn) }()
		}
	}()
	k := sshdtest.Start(t, nil)
	sshdtest.Write(t, k.Layout.At(layout.ClusterPub), ssh.MarshalAuthorizedKey(signer.PublicKey()))
	k.Client.Getenv = func(name string) string {
		if name == "SSH_AUTH_SOCK" {
			return socket
		}
		return ""
	}
	if code, stdout, _ := run(t, k, "", elsewhere(t, k)...); code != 0 || stdout != "in\n" {
		t.Errorf("exit %d, log %q", code, k.Log)
	}
}

func TestNoShellThere(t *testing.T) {
	k := sshdtest.Start(t, func(c *sshd.Config) { c.Shell = "" })
	if code, stdout, _ := run(t, k, "", "sub1", "echo", "words"); code != 0 || stdout != "words\n" {
		t.Errorf("exit %d, %q", code, stdout)
	}
}
