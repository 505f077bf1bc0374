// SPDX-License-Identifier: Apache-2.0

package sshd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"agentd/runner-bin/internal/layout"
	"agentd/runner-bin/internal/sshd/sshdtest"
)

// TestWhoGetsIn tries keys against files as users leave them.
func TestWhoGetsIn(t *testing.T) {
	k := sshdtest.Start(t, nil)
	_, user := sshdtest.NewKey(t)
	_, other := sshdtest.NewKey(t)
	line := string(ssh.MarshalAuthorizedKey(user.PublicKey()))
	file := k.Layout.At(layout.UserSSH + "/authorized_keys")
	tests := []struct {
		name string
		text string
		// mode of the file and of its directory; 0 means the usual ones
		mode, dir os.FileMode
		user      string
		key       ssh.Signer
		in        bool
	}{
		{name: "cluster key, no file", key: k.Signer, in: true},
		{name: "listed", text: "# mine\n\n" + line, key: user, in: true},
		{name: "not listed", text: line, key: other},
		{name: "no file", key: user},
		{name: "another user name", text: line, key: user, user: "root"},
		{name: "cluster key, another user name", key: k.Signer, user: "alice"},
		{name: "harmless options", text: `no-agent-forwarding,no-X11-forwarding ` + line, key: user, in: true},
		{name: "unknown options", text: `from="10.0.0.0/8" ` + line, key: user},
		{name: "certificate authority", text: "cert-authority " + line, key: user},
		{name: "damaged lines around it", text: "ssh-rsa AAAA\nnonsense\n" + line + "\x00", key: user, in: true},
		{name: "writable by the group", text: line, mode: 0o660, key: user},
		{name: "writable by all", text: line, mode: 0o606, key: user},
		{name: "readable by all", text: line, mode: 0o644, key: user, in: true},
		{name: "directory writable by the group", text: line, dir: 0o770, key: user},
		{name: "cluster key beside an unusable file", text: line, mode: 0o666, key: k.Signer, in: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_ = os.Remove(file)
			if tt.text != "" {
				sshdtest.Write(t, file, []byte(tt.text))
				chmod(t, file, tt.mode, 0o600)
			}
			chmod(t, filepath.Dir(file), tt.dir, 0o700)
			name := tt.user
			if name == "" {
				name = "work"
			}
			client, err := k.Login(name, tt.key)
			if (err == nil) != tt.in {
				t.Errorf("login: %v", err)
			}
			if err == nil {
				_ = client.Close()
			}
		})
	}
	if log := k.Log.String(); !strings.Contains(log, "is writable by others") || !strings.Contains(log, "option from is not supported") {
		t.Errorf("log %q", log)
	}
}

func chmod(t *testing.T, path string, mode, usual os.FileMode) {
	t.Helper()
	if mode == 0 {
		mode = usual
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestForeignOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root can give files away
	}
	k := sshdtest.Start(t, nil)
	_, user := sshdtest.NewKey(t)
	file := k.Layout.At(layout.UserSSH + "/authorized_keys")
	sshdtest.Write(t, file, ssh.MarshalAuthorizedKey(user.PublicKey()))
	if err := os.Chown(file, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Login("work", user); err == nil {
		t.Error("somebody else's file lets people in")
	}
}

func TestNoPassword(t *testing.T) {
	k := sshdtest.Start(t, nil)
	_, err := ssh.Dial("tcp", k.Server.Addr().String(), &ssh.ClientConfig{
		User: "work", Auth: []ssh.AuthMethod{ssh.Password("")}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err == nil {
		t.Error("a password lets people in")
	}
}

// TestRestrictedKeys honours what the user allowed a key.
func TestRestrictedKeys(t *testing.T) {
	k := sshdtest.Start(t, nil)
	_, user := sshdtest.NewKey(t)
	login := func(t *testing.T, options string) *ssh.Client {
		t.Helper()
		sshdtest.Write(t, k.Layout.At(layout.UserSSH+"/authorized_keys"),
			append([]byte(options+" "), ssh.MarshalAuthorizedKey(user.PublicKey())...))
		client, err := k.Login("work", user)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	t.Run("command", func(t *testing.T) {
		client := login(t, `command="echo \"forced\" $SSH_ORIGINAL_COMMAND"`)
		out, err := session(t, client).Output("rm -rf x")
		if err != nil || string(out) != "forced rm -rf x\n" {
			t.Errorf("%q, %v", out, err)
		}
		s := session(t, client)
		pipe, err := s.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.RequestSubsystem("sftp"); err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 6)
		if _, err := pipe.Read(head); err != nil || string(head) != "forced" {
			t.Errorf("subsystem: %q, %v", head, err)
		}
	})
	t.Run("restrict", func(t *testing.T) {
		client := login(t, "restrict")
		if err := session(t, client).RequestPty("xterm", 24, 80, nil); err == nil {
			t.Error("got a terminal")
		}
		if _, err := client.Dial("tcp", k.Server.Addr().String()); err == nil {
			t.Error("forwards a port")
		}
		if _, err := client.Listen("tcp", "127.0.0.1:0"); err == nil {
			t.Error("forwards a port back")
		}
	})
	t.Run("restrict,pty", func(t *testing.T) {
		if err := session(t, login(t, "restrict,pty")).RequestPty("xterm", 24, 80, nil); err != nil {
			t.Error(err)
		}
	})
}
