// SPDX-License-Identifier: Apache-2.0

package entry

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"agentd/runner-bin/internal/layout"
)

const rule = "work ALL=(ALL:ALL) NOPASSWD:ALL\n"

func (b *bench) mode(path string) fs.FileMode {
	b.t.Helper()
	info, err := os.Lstat(b.Layout.At(path))
	if err != nil {
		b.t.Fatal(err)
	}
	return info.Mode()
}

func TestSudo(t *testing.T) {
	b := newBench(t, false)
	b.file(layout.Sudoers, rule, 0o440)
	for range 2 { // a container may be started again
		b.run("cmd")
		if got := b.read(layout.SudoersDropIn); got != rule || b.mode(layout.SudoersDropIn) != 0o440 {
			t.Errorf("rule %q, mode %v", got, b.mode(layout.SudoersDropIn))
		}
	}
	if got := b.mode("/etc/sudoers.d"); got != fs.ModeDir|0o750 {
		t.Errorf("directory: %v", got)
	}
	if strings.Contains(b.output(), "sudo") {
		t.Errorf("output %q", b.output())
	}
}

func TestSudoKeepsTheImagesFiles(t *testing.T) {
	b := newBench(t, false)
	b.file("/etc/sudoers.d/01-bai-work", "# the image's own\n", 0o400)
	b.run("cmd")
	if got := b.read(layout.SudoersDropIn); got != "# the image's own\n" || b.mode(layout.SudoersDropIn) != 0o400 {
		t.Errorf("without a rule: %q, mode %v", got, b.mode(layout.SudoersDropIn))
	}
	b.file("/etc/sudoers.d/50-image", "# another\n", 0o440)
	b.file("/etc/sudoers.d/01-bai-work.new", "cut short", 0o400)
	b.file(layout.Sudoers, rule, 0o440)
	b.run("cmd")
	if got := b.read(layout.SudoersDropIn) + b.read("/etc/sudoers.d/50-image"); got != rule+"# another\n" {
		t.Errorf("with a rule: %q", got)
	}
	if got := b.mode("/etc/sudoers.d"); got != fs.ModeDir|0o755 {
		t.Errorf("directory: %v", got)
	}
	if _, err := os.Lstat(b.Layout.At(layout.SudoersDropIn + ".new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left over: %v", err)
	}
}

// TestNoSudo starts all the same, with one line, where the rule cannot be put in place.
func TestNoSudo(t *testing.T) {
	for name, block := range map[string]func(*bench){
		"no directory":       func(b *bench) { b.file("/etc/sudoers.d", "", 0o644) },
		"something in place": func(b *bench) { b.dir(layout.SudoersDropIn + "/x") },
		"no rule to read":    func(b *bench) { _ = os.Remove(b.Layout.At(layout.Sudoers)); b.dir(layout.Sudoers) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, false)
			b.file(layout.Sudoers, rule, 0o440)
			block(b)
			b.run("cmd")
			if n := strings.Count(b.output(), "bai-runner: no sudo without a password in this container: "); n != 1 {
				t.Errorf("output %q", b.output())
			}
			if _, err := os.Lstat(b.Layout.At(layout.SudoersDropIn + ".new")); err == nil {
				t.Error("a half-made file is left")
			}
		})
	}
}

func TestSudoNeedsRoot(t *testing.T) {
	b := newBench(t, false)
	b.file(layout.Sudoers, rule, 0o440)
	b.EUID = 1234
	b.run("cmd")
	if _, err := os.Lstat(b.Layout.At(layout.SudoersDropIn)); err == nil {
		t.Error("installed without being root")
	}
}
