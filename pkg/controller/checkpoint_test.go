// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

func open(t testing.TB, path string) (*controller.Checkpoint, controller.CheckpointReport) {
	t.Helper()
	c, report, err := controller.OpenCheckpoint(path, controller.CheckpointOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, report
}

func save(t testing.TB, c controller.Durable, changes ...change) {
	t.Helper()
	if err := c.Save(changes); err != nil {
		t.Fatal(err)
	}
}

func boxChange(name, data string) change {
	c := change{Key: apis.Key{Kind: boxKind, Name: name}}
	if data != "" {
		c.Data = []byte(data)
	}
	return c
}

func content(t testing.TB, d controller.Durable) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := d.Load(func(k apis.Key, data []byte) error {
		out[k.String()] = string(data)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// fill writes n objects in several commits, so that the file has branches,
// overflow pages and a list of free pages.
func fill(t testing.TB, c *controller.Checkpoint, n int) {
	t.Helper()
	for i := range n {
		save(t, c, boxChange(fmt.Sprintf("box-%03d", i), strings.Repeat("x", 100+i*61%9000)),
			change{Key: apis.Key{Kind: "hat", Name: fmt.Sprint(i)}, Data: []byte("small")})
	}
	for i := 0; i < n; i += 3 {
		save(t, c, boxChange(fmt.Sprintf("box-%03d", i), ""))
	}
}

func TestCheckpointReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	c, report := open(t, path)
	diff(t, controller.CheckpointReport{Fresh: true}, report)
	save(t, c, boxChange("a", "1"), boxChange("b", "2"), change{Key: apis.Key{Kind: "hat", Name: "a"}, Data: []byte("3")})
	save(t, c, boxChange("b", ""), boxChange("a", "4"), boxChange("c", "5"), boxChange("c", ""), boxChange("absent", ""))
	save(t, c, change{Key: apis.Key{Kind: "nobody", Name: "x"}})
	want := map[string]string{"box/a": "4", "hat/a": "3"}
	diff(t, want, content(t, c))
	snapshot, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	save(t, snapshot, boxChange("only in memory", "6"))
	diff(t, want, content(t, c))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if err := c.Save([]change{boxChange("a", "late")}); err == nil {
		t.Error("saved after the end")
	}
	c, report = open(t, path)
	diff(t, controller.CheckpointReport{}, report)
	diff(t, want, content(t, c))
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, fs.FileMode(0o600), st.Mode())
}

func TestCheckpointModeIsMended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	c, _ := open(t, path)
	_ = c.Close()
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	st, _ := os.Stat(path)
	diff(t, fs.FileMode(0o600), st.Mode())
}

func TestCheckpointLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	c, _ := open(t, path)
	save(t, c, boxChange("a", "1"))
	for _, readOnly := range []bool{false, true} {
		begin := time.Now()
		_, _, err := controller.OpenCheckpoint(path, controller.CheckpointOptions{ReadOnly: readOnly, LockTimeout: 30 * time.Millisecond})
		if !errors.Is(err, controller.ErrInUse) || !strings.Contains(err.Error(), path) {
			t.Errorf("read-only %v: %v", readOnly, err)
		}
		if d := time.Since(begin); d < 30*time.Millisecond || d > 5*time.Second {
			t.Errorf("waited %v", d)
		}
	}
	diff(t, map[string]string{"box/a": "1"}, content(t, c))

	// Who waits gets it when the other one ends.
	got := make(chan error)
	go func() {
		c, _, err := controller.OpenCheckpoint(path, controller.CheckpointOptions{LockTimeout: time.Minute})
		if err == nil {
			err = c.Close()
		}
		got <- err
	}()
	_ = c.Close()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestCheckpointReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	ro := controller.CheckpointOptions{ReadOnly: true}
	if _, _, err := controller.OpenCheckpoint(path, ro); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	c, _ := open(t, path)
	save(t, c, boxChange("a", "1"))
	_ = c.Close()
	one, report, err := controller.OpenCheckpoint(path, ro)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, controller.CheckpointReport{}, report)
	two, _, err := controller.OpenCheckpoint(path, ro)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, content(t, one), content(t, two))
	if err := one.Save([]change{boxChange("b", "2")}); err == nil {
		t.Error("saved to a read-only checkpoint")
	}
	if _, _, err := controller.OpenCheckpoint(path, controller.CheckpointOptions{}); !errors.Is(err, controller.ErrInUse) {
		t.Errorf("beside readers: %v", err)
	}
	_, _ = one.Close(), two.Close()

	if err := os.WriteFile(path, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := controller.OpenCheckpoint(path, ro); !errors.Is(err, controller.ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
	diff(t, 1, len(files(t, path)))
}

// files lists the directory of path.
func files(t testing.TB, path string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// opensAside opens what lies at path, expects that it is set aside, and that
// the new file works.
func opensAside(t *testing.T, path, why string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, report := open(t, path)
	if !report.Fresh || !strings.HasPrefix(report.Damaged, path+".damaged-") || report.Reason == nil {
		t.Fatalf("report %+v", report)
	}
	if !strings.Contains(report.Reason.Error(), why) || !errors.Is(report.Reason, controller.ErrDamaged) {
		t.Errorf("reason %q, want one with %q", report.Reason, why)
	}
	kept, err := os.ReadFile(report.Damaged)
	if err != nil || !bytes.Equal(kept, before) {
		t.Errorf("the file was not kept as it was: %v", err)
	}
	diff(t, 0, len(content(t, c)))
	save(t, c, boxChange("new", "1"))
	_ = c.Close()
	c, report = open(t, path)
	diff(t, controller.CheckpointReport{}, report)
	diff(t, map[string]string{"box/new": "1"}, content(t, c))
	_ = c.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestUnusableFilesAreSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	random := make([]byte, 100_000)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	for name, data := range map[string][]byte{
		"empty": {}, "one byte": {0}, "text": []byte("hello\n"), "random": random, "zeros": make([]byte, 65536),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			opensAside(t, path, "it is")
		})
	}
	boltWith := func(fn func(tx *bolt.Tx) error) {
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if err := db.Update(fn); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("somebody else's", func(t *testing.T) {
		boltWith(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("box")); return err })
		opensAside(t, path, "not agentd's")
	})
	for _, version := range []string{"0", "2", ""} {
		t.Run("schema "+version, func(t *testing.T) {
			boltWith(func(tx *bolt.Tx) error {
				b, err := tx.CreateBucket([]byte("agentd.schema"))
				if err != nil {
					return err
				}
				return b.Put([]byte("version"), []byte(version))
			})
			opensAside(t, path, fmt.Sprintf("its schema is %q", version))
		})
	}
	// The power went away after the file was made and before anything was in it.
	boltWith(func(*bolt.Tx) error { return nil })
	_, report := open(t, path)
	diff(t, controller.CheckpointReport{Fresh: true}, report)
}

func TestTwoFilesSetAsideInOneSecond(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	for range 4 {
		if err := os.WriteFile(path, []byte("junk"), 0o600); err != nil {
			t.Fatal(err)
		}
		opensAside(t, path, "not a bbolt file")
	}
	diff(t, 4, len(files(t, path)))
}

func TestTruncatedAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	c, _ := open(t, path)
	fill(t, c, 40)
	want := content(t, c)
	_ = c.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var offsets []int64
	for off := int64(0); off < int64(len(whole)); off += 4096 {
		offsets = append(offsets, off, off+1, off+16, off+100, off+4095)
	}
	for i := range offsets {
		off := min(offsets[i], int64(len(whole))-1)
		if err := os.WriteFile(path, whole[:off], 0o600); err != nil {
			t.Fatal(err)
		}
		c, report := open(t, path)
		// The tail of the file may never have been written: then nothing is lost.
		if got := content(t, c); report.Damaged == "" {
			diff(t, want, got)
		} else {
			diff(t, 0, len(got))
			if err := os.Remove(report.Damaged); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.Close()
	}
}

// TestCutUnderTheHand truncates the file while it is open: the next access
// raises SIGBUS, which must come out as an error.
func TestCutUnderTheHand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoint")
	c, _ := open(t, path)
	fill(t, c, 40)
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	if err := c.Load(func(apis.Key, []byte) error { return nil }); !errors.Is(err, controller.ErrDamaged) {
		t.Errorf("load: %v", err)
	}
	if err := c.Save([]change{boxChange("a", "1")}); !errors.Is(err, controller.ErrDamaged) {
		t.Errorf("save: %v", err)
	}
	_ = c.Close() // gives the lock back
	_, report := open(t, path)
	if report.Damaged == "" {
		t.Error("not noticed on the next start")
	}
}

func TestPathsThatCannotWork(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "dir")
	if err := os.Mkdir(fifo, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, filepath.Join(dir, "no", "such"), "/proc/self/nothing", "/dev/null"} {
		for _, ro := range []bool{false, true} {
			_, _, err := controller.OpenCheckpoint(path, controller.CheckpointOptions{ReadOnly: ro})
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
