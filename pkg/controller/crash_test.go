// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentd/pkg/controller"
)

func startChild(t *testing.T, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(args, " "))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// loadBoxes opens the checkpoint and returns the number of the last commit in
// it, after checking that this commit is there as a whole.
func loadBoxes(t *testing.T, path string) int {
	t.Helper()
	c, report := open(t, path)
	if report.Damaged != "" {
		t.Fatalf("damaged: %v", report.Reason)
	}
	w := newWorld()
	loaded, err := w.Attach(c)
	if err != nil || len(loaded.Skipped) > 0 {
		t.Fatalf("%v, skipped %v", err, loaded.Skipped)
	}
	a, b := w.get(t, "a").Spec.Size, w.get(t, "b").Spec.Size
	own := w.get(t, fmt.Sprint(a)).Spec.Size
	if a != b || a != own || w.boxes.Reader().Len() != 2+min(a, 20) {
		t.Errorf("a is of commit %d, b of %d, its own object of %d, %d objects", a, b, own, w.boxes.Reader().Len())
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestKilled kills a process that commits all the time.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	for _, after := range []int{1, 3, 10, 40} {
		cmd, out := startChild(t, path)
		lines := bufio.NewScanner(out)
		for range after {
			if !lines.Scan() {
				t.Fatal("the child ended")
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		done := 0
		for ok := true; ok; ok = lines.Scan() { // what it had said before it died
			if _, err := fmt.Sscan(lines.Text(), &done); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait()
		// The one after the last that was acknowledged may be there too.
		if got := loadBoxes(t, path); got != done && got != done+1 {
			t.Errorf("%d commits were acknowledged, the last on disk is %d", done, got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDisk lets a process run out of space: through a limit on the size of
// files, which needs no privileges, and on a tiny file system where mounting
// one is allowed.
func TestFullDisk(t *testing.T) {
	run := func(t *testing.T, dir, want string, limit ...string) {
		path := filepath.Join(dir, "checkpoint")
		cmd, out := startChild(t, append([]string{path}, limit...)...)
		said, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		last := lines[len(lines)-1]
		if strings.Count(last, want) != 2 || strings.Count(last, controller.ErrFatal.Error()) != 2 || !strings.Contains(last, path) {
			t.Errorf("said %q, want %q twice", last, want)
		}
		if got := loadBoxes(t, path); got != len(lines)-1 {
			t.Errorf("%d commits were acknowledged, the last on disk is %d", len(lines)-1, got)
		}
	}
	t.Run("limit", func(t *testing.T) { run(t, t.TempDir(), "file too large", "300000") })
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=160k"); err != nil {
		t.Logf("no tiny file system: %v", err)
		return
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	t.Run("file system", func(t *testing.T) { run(t, dir, "no space left on device") })
}

func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "checkpoint")
	c, _ := open(t, path)
	save(t, c, boxChange("a", "1"))
	_ = c.Close()
	fresh := filepath.Join(readOnly(t, dir), "fresh")
	if _, _, err := controller.OpenCheckpoint(fresh, controller.CheckpointOptions{}); err == nil || !strings.Contains(err.Error(), fresh) {
		t.Errorf("a new file: %v", err)
	}
	// Reading is all that `agentd get` needs.
	ro, _, err := controller.OpenCheckpoint(path, controller.CheckpointOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ro.Close() }()
	diff(t, map[string]string{"box/a": "1"}, content(t, ro))
}

// readOnly takes the right to write away from dir and returns a directory that
// nobody can write to: dir, or /proc for a root user who may not mount.
func readOnly(t *testing.T, dir string) string {
	t.Helper()
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		return dir
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return "/proc"
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	return dir
}
