// SPDX-License-Identifier: Apache-2.0

package sshd_test

import (
	"bytes"
	"strings"
	"testing"

	"agentd/runner-bin/internal/sshd"
	"agentd/runner-bin/internal/sshd/sshdtest"
)

func TestNoShell(t *testing.T) {
	client := sshdtest.Start(t, func(c *sshd.Config) { c.Shell = "" }).Dial(t)
	tests := []struct {
		command, stdout, stderr, end string
	}{
		{"echo 'a b'  c\\ d \"e\"", "a b c d e\n", "", "exit 0"},
		{"false", "", "", "exit 1"},
		{"no-such-program-here x", "", "no-such-program-here: not found", "exit 127"},
		{"echo $HOME", "", "no shell", "exit 127"},
		{"true; true", "", "no shell", "exit 127"},
		{"echo 'open", "", "quote", "exit 127"},
	}
	for _, tt := range tests {
		t.Run(tt.command, func(t *testing.T) {
			s := session(t, client)
			var stdout, stderr bytes.Buffer
			s.Stdout, s.Stderr = &stdout, &stderr
			end := ended(s.Run(tt.command))
			if end != tt.end || stdout.String() != tt.stdout || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("%s, stdout %q, stderr %q", end, stdout.String(), stderr.String())
			}
		})
	}
	s := session(t, client)
	var stderr bytes.Buffer
	s.Stderr = &stderr
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	if end := ended(s.Wait()); end != "exit 127" || !strings.Contains(stderr.String(), "no shell to log in to") {
		t.Errorf("login: %s, %q", end, stderr.String())
	}
}
