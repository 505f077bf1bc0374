// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

const kid = "5c2b1a9e-0000-4000-8000-0123456789ab"

// user is the kernel's user in tests that run as root; else the tester.
func user() int {
	if os.Geteuid() == 0 {
		return 2001
	}
	return os.Geteuid()
}

func newStore(t testing.TB, opts ...Option) *Store {
	t.Helper()
	s, err := New(filepath.Join(t.TempDir(), "scratches"), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// kernelSpec is like the real thing: config for root, work and run for the user.
func kernelSpec() apis.ScratchSpec {
	u := user()
	dir := func(p string, mode uint32, uid int) apis.ScratchDir {
		return apis.ScratchDir{Path: p, Mode: mode, UID: uid, GID: uid}
	}
	file := func(p string, mode uint32, uid int, once bool) apis.ScratchFile {
		return apis.ScratchFile{Path: p, Mode: mode, UID: uid, GID: uid, Once: once, Content: apis.Secret("content of " + p + "\n")}
	}
	return apis.ScratchSpec{
		Kind: kindHostdir,
		Dirs: []apis.ScratchDir{
			dir("work/.ssh", 0o700, u), dir("work", 0o755, u), dir("config", 0o700, -1),
			dir("config/ssh", 0o700, -1), dir("run", 0o700, u), dir("tmp", 0o1777, -1),
		},
		Files: []apis.ScratchFile{
			file("config/environ.txt", 0o600, -1, false),
			file("config/resource.txt", 0o644, -1, false),
			file("config/ssh/id_cluster", 0o600, u, false),
			file("work/.bashrc", 0o644, u, true),
			file("work/.ssh/authorized_keys", 0o600, u, false),
			file("work/.ssh/id_rsa", 0o600, u, true),
			file("work/.config/app/settings.json", 0o640, u, false),
		},
	}
}

func ensure(t testing.TB, s *Store, spec apis.ScratchSpec) (changed bool) {
	t.Helper()
	path, changed, err := s.Ensure(t.Context(), kid, spec)
	if err != nil {
		t.Fatal(err)
	}
	if path != s.Path(kid) {
		t.Fatalf("path %q, want %q", path, s.Path(kid))
	}
	return changed
}

// tree lists everything below dir as "mode uid:gid content", links not followed.
func treeOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		content := ""
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			content = string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			if content, err = os.Readlink(p); err != nil {
				return err
			}
		}
		rel, _ := filepath.Rel(dir, p)
		out[rel] = fmt.Sprintf("%v %d:%d %s", info.Mode(), st.Uid, st.Gid, content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// canary is a directory outside that must stay as it is until the test ends.
func canary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o751))
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("precious"), 0o604))
	must(t, os.WriteFile(filepath.Join(dir, "sub", "deep"), []byte("precious too"), 0o604))
	before := treeOf(t, dir)
	t.Cleanup(func() {
		if diff := cmp.Diff(before, treeOf(t, dir)); diff != "" {
			t.Errorf("something outside the scratch changed:\n%s", diff)
		}
	})
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// needRoot is for what only root can set up; make test runs as root.
func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("needs root: run the tests of this package as root")
	}
}

// mount mounts a tmpfs until the test ends.
func mount(t testing.TB, dir, options string) {
	t.Helper()
	needRoot(t)
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, options))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// cutCtx is cancelled when it is asked for the n-th time.
type cutCtx struct {
	context.Context
	left int
}

func (c *cutCtx) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}
