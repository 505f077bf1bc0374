// SPDX-License-Identifier: Apache-2.0

package sshclient

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/runner-bin/internal/layout"
)

func TestParseCommandLine(t *testing.T) {
	tests := []struct {
		args string
		want commandLine
	}{
		{"sub1", commandLine{Options: Options{Host: "sub1"}}},
		{"sub1 hostname -f", commandLine{Options: Options{Host: "sub1"}, Command: "hostname -f"}},
		{"-p 22 -l me sub1", commandLine{Options: Options{Host: "sub1", Port: 22, User: "me"}}},
		{"-p22 -lme -ikey sub1", commandLine{Options: Options{Host: "sub1", Port: 22, User: "me", Identities: []string{"key"}}}},
		{"-ttqx you@sub1 -n ls", commandLine{Options: Options{Host: "sub1", User: "you", Quiet: true}, Terminal: 2, NoInput: true, Command: "ls"}},
		{"-l me you@sub1", commandLine{Options: Options{Host: "sub1", User: "me"}}},
		{"-oBatchMode=yes -o", commandLine{}},
		{"-o A=1 -o B=2 -T sub1 -- -x y", commandLine{Options: Options{Host: "sub1", Values: []string{"A=1", "B=2"}}, NoTerminal: true, Command: "-x y"}},
		{"-F cfg -v -A -a -X sub1", commandLine{Options: Options{Host: "sub1", ConfigFile: "cfg", Verbose: true}}},
		{"ssh://me@sub1:2222/ ls", commandLine{Options: Options{Host: "sub1", User: "me", Port: 2222}, Command: "ls"}},
		{"ssh://[::1]:2222", commandLine{Options: Options{Host: "::1", Port: 2222}}},
		{"a@b@sub1", commandLine{Options: Options{Host: "sub1", User: "a@b"}}},
		{"-4 -s sub1 sftp", commandLine{Options: Options{Host: "sub1", Network: "tcp4"}, Subsystem: true, Command: "sftp"}},
		{"-V", commandLine{ShowVersion: true}},
		{"-vp", commandLine{}},
		{"", commandLine{}},
		{"-p 0 sub1", commandLine{}},
		{"-p 99999 sub1", commandLine{}},
		{"-L 1:a:2 sub1", commandLine{}},
		{"-f sub1 x", commandLine{}},
		{"-Z sub1", commandLine{}},
		{"-s sub1", commandLine{}},
		{"me@ ls", commandLine{}},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			got, err := parseCommandLine(strings.Fields(tt.args))
			bad := cmp.Equal(tt.want, commandLine{})
			if bad {
				if err == nil {
					t.Errorf("%+v, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.Network == "" {
				tt.want.Network = "tcp"
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := parseCommandLine(nil); !errors.Is(err, errUsage) {
		t.Errorf("no arguments: %v, want the usage", err)
	}
}

func TestWildcard(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true},
		{"*", "x", true},
		{"sub?", "sub1", true},
		{"sub?", "sub12", false},
		{"sub?", "sub", false},
		{"*.example.*", "a.example.org", true},
		{"*.example.*", "example.org", false},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXbY", false},
		{"", "", true},
		{"", "x", false},
		{"LC_*", "LC_ALL", true},
		{"**", "x", true},
	} {
		if got := Wildcard(tt.pattern, tt.text); got != tt.want {
			t.Errorf("Wildcard(%q, %q) = %v", tt.pattern, tt.text, got)
		}
	}
}

func TestConfig(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{
		"config": `
# comment
SendEnv LANG
Host sub1 sub? !sub9
	Port 2200
	Port 2201
	IdentityFile ~/a
	User = "work"
Host *.example.com
	Port 99
Match exec "true"
	Port 98
Match all
	IdentityFile ~/b
Include conf.d/*
Host *
	Port 22
	ConnectTimeout=7
`,
		"conf.d/one": "Host sub1\n  ProxyJump none\n",
		"conf.d/two": "Host other\n  User nobody\n",
	} {
		path := filepath.Join(home, ".ssh", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &Client{Layout: layout.Layout{Root: t.TempDir()}, Getenv: func(string) string { return "" }, Home: home}
	tests := []struct {
		host, address, user string
		identities          []string
	}{
		{"sub1", "sub1:2200", "work", []string{"~/a", "~/b"}},
		{"sub9", "sub9:22", "work", []string{"~/b"}},
		{"x.example.com", "x.example.com:99", "work", []string{"~/b"}},
		{"other", "other:22", "nobody", []string{"~/b"}},
	}
	for _, tt := range tests {
		got, err := c.resolve(Options{Host: tt.host})
		if err != nil {
			t.Fatal(err)
		}
		if tt.user == "work" && tt.host != "sub1" {
			tt.user = c.localUser()
		}
		if got.address != tt.address || got.user != tt.user || got.get("connecttimeout") != "7" {
			t.Errorf("%s: %s as %s, %v", tt.host, got.address, got.user, got.values)
		}
		if diff := cmp.Diff(tt.identities, got.identities); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.host, diff)
		}
	}

	// The command line wins, and says no to what this client does not have.
	got, err := c.resolve(Options{Host: "sub1", Port: 1, User: "me", Values: []string{"HostName=h", "ConnectTimeout 3"}})
	if err != nil || got.address != "h:1" || got.user != "me" || got.get("ConnectTimeout") != "3" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, value := range []string{"ProxyCommand=nc %h %p", "ProxyJump=gate", "Port=x"} {
		if _, err := c.resolve(Options{Host: "h", Values: []string{value}}); err == nil {
			t.Errorf("%s was accepted", value)
		}
	}
	if _, err := c.resolve(Options{Host: "h", ConfigFile: "/nonexistent"}); err == nil {
		t.Error("a missing -F file was accepted")
	}
	if got, err := c.resolve(Options{Host: "sub1", ConfigFile: "none"}); err != nil || got.address != "sub1:22" {
		t.Errorf("without configuration: %+v, %v", got, err)
	}
}

// TestClusterHosts reaches the session's hosts without any configuration.
func TestClusterHosts(t *testing.T) {
	l := layout.Layout{Root: t.TempDir()}
	key := l.At(layout.ClusterKey)
	if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Client{Layout: l, Home: "/nonexistent", Getenv: func(name string) string {
		return map[string]string{"BACKENDAI_CLUSTER_HOSTS": "main1,sub1"}[name]
	}}
	got, err := c.resolve(Options{Host: "sub1"})
	if err != nil || got.address != "sub1:2200" || got.user != "work" || !got.cluster || !cmp.Equal(got.identities, []string{key}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = c.resolve(Options{Host: "sub2"}); err != nil || got.address != "sub2:22" || got.cluster || got.identities != nil {
		t.Errorf("a host of somebody else: %+v, %v", got, err)
	}
}
