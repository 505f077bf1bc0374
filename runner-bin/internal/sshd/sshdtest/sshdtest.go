// SPDX-License-Identifier: Apache-2.0

// Package sshdtest gives tests a kernel to log in to: an SSH server over loopback with a home in a temporary directory,
// and a client that reaches it as a host of its cluster.
package sshdtest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"agentd/runner-bin/internal/layout"
	"agentd/runner-bin/internal/say"
	"agentd/runner-bin/internal/sshclient"
	"agentd/runner-bin/internal/sshd"
	"agentd/runner-bin/internal/transfer"
)

// Host is the name under which Kernel's client knows the server.
const Host = "sub1"

// Kernel is a running server.
type Kernel struct {
	Layout layout.Layout
	Home   string
	Server *sshd.Server
	Client *sshclient.Client
	// Log is what server and client said.
	Log *Log
	// Signer is the cluster's key.
	Signer ssh.Signer
}

// Main stands in for testing.M.Run's caller: where the server calls this binary back for a command, it carries that out
// instead of the tests.
func Main(run func() int) int {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "sftp-server":
			return transfer.SFTPServer(os.Stdin, os.Stdout, os.Stderr)
		case "scp":
			return transfer.SCP(os.Args[2:])
		}
	}
	return run()
}

// Start starts a server that ends with the test. The function may change its configuration before.
func Start(t *testing.T, change func(*sshd.Config)) *Kernel {
	t.Helper()
	k := &Kernel{Layout: layout.Layout{Root: t.TempDir()}, Log: &Log{}}
	k.Home = k.Layout.At(layout.Work)
	for _, dir := range []string{layout.UserSSH, layout.Config + "/ssh"} {
		if err := os.MkdirAll(k.Layout.At(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	private, signer := NewKey(t)
	k.Signer = signer
	Write(t, k.Layout.At(layout.ClusterKey), private)
	Write(t, k.Layout.At(layout.ClusterPub), ssh.MarshalAuthorizedKey(signer.PublicKey()))

	_, hostKey := NewKey(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config := sshd.Config{
		HostKey:     hostKey,
		Version:     "test 1-2",
		Users:       []string{"work"},
		UserKeys:    k.Layout.At(layout.UserSSH + "/authorized_keys"),
		ClusterKeys: k.Layout.At(layout.ClusterPub),
		// GORACE: a test binary with the race detector called back as a command otherwise waits a second at its end.
		Env:   []string{"PATH=" + os.Getenv("PATH"), "BACKENDAI_CLUSTER_HOST=" + Host, "GORACE=atexit_sleep_ms=0"},
		Home:  k.Home,
		Shell: "/bin/sh",
		Self:  []string{self},
		Log:   say.To(k.Log, "sshd: "),
	}
	if change != nil {
		change(&config)
	}
	if k.Server, err = sshd.Listen("127.0.0.1:0", config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Server.Close)

	_, port, err := net.SplitHostPort(k.Server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	Write(t, k.Layout.At(layout.PortMapping), fmt.Appendf(nil, `{%q: ["127.0.0.1", %s]}`, Host, port))
	k.Client = &sshclient.Client{
		Layout: k.Layout,
		Getenv: func(name string) string {
			if name == "BACKENDAI_CLUSTER_HOSTS" {
				return "main1," + Host
			}
			return ""
		},
		Home: k.Home,
		Log:  say.To(k.Log, "ssh: "),
	}
	return k
}

// Dial logs in with the plain library, as user work and with the cluster's key.
func (k *Kernel) Dial(t *testing.T) *ssh.Client {
	t.Helper()
	client, err := k.Login("work", k.Signer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Login logs in with the plain library.
func (k *Kernel) Login(user string, keys ...ssh.Signer) (*ssh.Client, error) {
	return ssh.Dial("tcp", k.Server.Addr().String(), &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(keys...)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
}

// NewKey makes a key pair: the private half as a file has it, and what signs with it.
func NewKey(t *testing.T) ([]byte, ssh.Signer) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block), signer
}

// Write writes a file that only its owner may read, with the directories above it.
func Write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Log collects text from several goroutines.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String returns everything so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
