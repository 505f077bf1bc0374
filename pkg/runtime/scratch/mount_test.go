// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

func TestParseMounts(t *testing.T) {
	const info = `22 1 254:0 / / rw - ext4 /dev/vda rw
30 22 0:40 / /s/k rw,relatime shared:1 - tmpfs tmpfs rw
31 22 0:41 / /s/k2 rw - tmpfs tmpfs rw
32 22 0:42 /x /s/k/work/a\040b\134c rw - tmpfs tmpfs rw
`
	got, err := parseMounts(strings.NewReader(info), "/s/k")
	must(t, err)
	if diff := cmp.Diff([]string{"/s/k", `/s/k/work/a b\c`}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := parseMounts(strings.NewReader("1 2\n"), "/"); err == nil {
		t.Error("a short line was accepted")
	}
}

// A mount inside is refused by name before anything is touched, whatever is
// mounted where.
func TestRemoveRefusesMounts(t *testing.T) {
	needRoot(t)
	for _, place := range []string{"", "work", "work/.ssh", "work/a b", "work/.bashrc"} {
		t.Run("at "+filepath.Base(place), func(t *testing.T) {
			outside := canary(t)
			s := newStore(t)
			ensure(t, s, kernelSpec())
			p := filepath.Join(s.Path(kid), place)
			source := outside
			if place == "work/.bashrc" {
				source += "/file"
			} else {
				must(t, os.MkdirAll(p, 0o755))
			}
			must(t, unix.Mount(source, p, "", unix.MS_BIND, ""))
			t.Cleanup(func() { _ = unix.Unmount(p, unix.MNT_DETACH) })
			before := treeOf(t, s.root)
			err := s.Remove(t.Context(), kid)
			if !errors.Is(err, apis.ErrConflict) || !strings.Contains(err.Error(), p) {
				t.Errorf("Remove: %v", err)
			}
			if place != "work/a b" {
				if _, _, err := s.Ensure(t.Context(), kid, kernelSpec()); !errors.Is(err, apis.ErrConflict) {
					t.Errorf("Ensure: %v", err)
				}
			}
			if diff := cmp.Diff(before, treeOf(t, s.root)); diff != "" {
				t.Errorf("touched:\n%s", diff)
			}
			must(t, unix.Unmount(p, 0))
			must(t, s.Remove(t.Context(), kid))
			wantEmpty(t, s)
		})
	}
}

// A mount that appears after the look is not crossed either.
func TestEmptierDoesNotCrossMounts(t *testing.T) {
	needRoot(t)
	outside := canary(t)
	dir := t.TempDir()
	inner := filepath.Join(dir, "hold/0/a/b/mnt")
	must(t, os.MkdirAll(inner, 0o755))
	must(t, unix.Mount(outside, inner, "", unix.MS_BIND, ""))
	t.Cleanup(func() {
		entries, _ := filepath.Glob(dir + "/hold/*/mnt")
		for _, p := range append(entries, inner) {
			_ = unix.Unmount(p, unix.MNT_DETACH)
		}
	})
	fd, err := open(dir+"/hold", unix.O_RDONLY|unix.O_DIRECTORY)
	must(t, err)
	defer closeFD(fd)
	e := emptier{fd: fd, path: dir + "/hold", taken: 1}
	err = e.empty(t.Context())
	if !errors.Is(err, apis.ErrConflict) || !strings.Contains(err.Error(), "/mnt") {
		t.Errorf("%v", err)
	}
	if fd, err := openBeneath(fd, "2/mnt", unix.O_PATH); !errors.Is(err, unix.EXDEV) {
		t.Errorf("opened a mount: %d, %v", fd, err)
	}
}

// Nothing half written stays on a full disk, and it goes on when there is room.
func TestFullDisk(t *testing.T) {
	for name, options := range map[string]string{"no blocks": "size=64k", "no inodes": "size=1m,nr_inodes=8"} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			mount(t, root, options)
			s, err := New(root)
			must(t, err)
			must(t, os.WriteFile(root+"/ballast", make([]byte, 40<<10), 0o600))
			spec := kernelSpec()
			spec.Files[0].Content = apis.Secret(strings.Repeat("x", 30<<10))
			_, _, err = s.Ensure(t.Context(), kid, spec)
			if !errors.Is(err, apis.ErrUnavailable) || !errors.Is(err, unix.ENOSPC) ||
				!strings.Contains(err.Error(), s.Path(kid)) || !strings.Contains(err.Error(), "container.scratch-root") {
				t.Errorf("Ensure: %v", err)
			}
			for p := range treeOf(t, root) {
				if filepath.Base(p) == stagingName || strings.HasSuffix(p, "environ.txt") {
					t.Errorf("left: %s", p)
				}
			}
			must(t, os.Remove(root+"/ballast"))
			must(t, unix.Mount("tmpfs", root, "tmpfs", unix.MS_REMOUNT, "size=1m,nr_inodes=100"))
			ensure(t, s, spec)
			must(t, s.Remove(t.Context(), kid))
			wantEmpty(t, s)
		})
	}
}

func TestReadOnlyRoot(t *testing.T) {
	root := t.TempDir()
	mount(t, root, "size=1m")
	s, err := New(root)
	must(t, err)
	ensure(t, s, kernelSpec())
	must(t, unix.Mount("tmpfs", root, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""))

	s, err = New(root) // the daemon starts and tells what it cannot do
	must(t, err)
	if ensure(t, s, kernelSpec()) {
		t.Error("changed")
	}
	spec := kernelSpec()
	spec.Files[0].Content = "other"
	wantUnavailable := func(what string, err error, path string) {
		t.Helper()
		if !errors.Is(err, apis.ErrUnavailable) || !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, _, err = s.Ensure(t.Context(), kid, spec)
	wantUnavailable("Ensure", err, s.Path(kid)+"/config")
	_, _, err = s.Ensure(t.Context(), "new", spec)
	wantUnavailable("Ensure of a new one", err, s.Path("new"))
	wantUnavailable("Remove", s.Remove(t.Context(), kid), s.Path(kid))
	must(t, s.Remove(t.Context(), "absent"))
	if names, err := s.List(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("List: %v, %v", names, err)
	}
	_, err = New(root + "/missing")
	wantUnavailable("New", err, root+"/missing")
	must(t, unix.Mount("tmpfs", root, "tmpfs", unix.MS_REMOUNT, ""))
	must(t, s.Remove(t.Context(), kid))
}

func TestBadRoots(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/file", nil, 0o600))
	must(t, os.Mkdir(dir+"/open", 0o755))
	must(t, os.Chmod(dir+"/open", 0o777))
	must(t, os.Mkdir(dir+"/sticky", 0o755))
	must(t, os.Chmod(dir+"/sticky", 0o777|os.ModeSticky))
	must(t, os.Symlink("sticky", dir+"/link"))
	for root, words := range map[string]string{
		"": "is empty", "/": "is /", dir + "/file": "not a directory", dir + "/file/below": "not a directory", dir + "/open": "chmod o-w",
	} {
		_, err := New(root)
		wantTerminal(t, err, words)
		wantTerminal(t, err, "container.scratch-root")
		wantTerminal(t, err, root)
	}
	for _, root := range []string{dir + "/sticky", dir + "/link"} {
		s, err := New(root)
		must(t, err)
		ensure(t, s, kernelSpec())
		must(t, s.Remove(t.Context(), kid))
	}
	t.Chdir(dir)
	s, err := New("./relative")
	must(t, err)
	if want := dir + "/relative/" + kid; s.Path(kid) != want {
		t.Errorf("Path = %q, want %q", s.Path(kid), want)
	}
}

// A root that disappears, as a disk that is not mounted, is no empty root.
func TestRootDisappears(t *testing.T) {
	s := newStore(t)
	must(t, os.Rename(s.root, s.root+".away"))
	_, _, errEnsure := s.Ensure(t.Context(), kid, kernelSpec())
	_, errList := s.List(t.Context())
	_, errRead := s.Read(t.Context(), kid, "config/x")
	for what, err := range map[string]error{
		"Ensure": errEnsure, "List": errList, "Read": errRead,
		"Remove": s.Remove(t.Context(), kid), "CleanRemoving": s.CleanRemoving(t.Context()),
	} {
		if !errors.Is(err, apis.ErrUnavailable) || !strings.Contains(err.Error(), s.root) {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, os.Rename(s.root+".away", s.root))
	ensure(t, s, kernelSpec())
}
