// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentd/test/e2e/engine"
)

// TestDryRunTouchesNothing: on a fresh machine a dry run makes nothing, and the run that it plans does.
func TestDryRunTouchesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	t.Setenv("DOCKER_HOST", engine.NewFake(t).Host())
	self, err := os.Executable() // stands in for bai-runner, which is looked at only
	if err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf("[manager]\nenabled = false\n[agentd]\nrunner = %q\n[agent]\nbackend = \"docker\"\nid = \"i-test\"\nipc-base-path = \"ipc\"\n"+
		"[container]\n[resource]\nreserved-cpu = 0\nreserved-mem = \"1M\"\n", self)
	if err := os.WriteFile("agent.toml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(dry bool) {
		t.Helper()
		var out, errs bytes.Buffer
		f := reconcileFlags{once: true, dryRun: dry, timeout: time.Minute}
		if err := runReconcile(t.Context(), streams{in: strings.NewReader(""), out: &out, err: &errs}, &globals{config: "agent.toml"}, f); err != nil {
			t.Fatalf("dry run %v: %v\n%s%s", dry, err, out.String(), errs.String())
		}
	}
	run(true)
	if got := below(t, dir); !slices.Equal(got, []string{"agent.toml"}) {
		t.Errorf("after a dry run there are %q", got)
	}
	run(false)
	got := below(t, dir)
	for _, want := range []string{"ipc", "scratches", "var/lib/backend.ai/checkpoint.db", "var/lib/backend.ai/logs"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s after a real run, only %q", want, got)
		}
	}
	before := got
	run(true)
	if got := below(t, dir); !slices.Equal(got, before) {
		t.Errorf("a dry run made %q of %q", got, before)
	}
}

// below lists all files and directories in dir.
func below(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, _ fs.DirEntry, err error) error {
		if p != "." {
			out = append(out, filepath.ToSlash(p))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
