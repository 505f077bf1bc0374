// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

func wantEmpty(t testing.TB, s *Store) {
	t.Helper()
	entries, err := os.ReadDir(s.root)
	if err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// deepen makes a chain of directories that no path can name.
func deepen(t testing.TB, dir string, levels int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(fd, "d", 0o700))
		next, err := unix.Openat(fd, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		closeFD(fd)
		fd = next
	}
	f, err := unix.Openat(fd, "bottom", unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, err)
	closeFD(f)
	closeFD(fd)
}

func TestRemoveTrees(t *testing.T) {
	outside := canary(t)
	for name, build := range map[string]func(t *testing.T, dir string){
		"absent": func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Dir(dir))) },
		"empty":  func(*testing.T, string) {},
		"deep":   func(t *testing.T, dir string) { deepen(t, dir, 10_000) },
		"wide": func(t *testing.T, dir string) {
			for i := range 3000 {
				must(t, os.MkdirAll(fmt.Sprintf("%s/%d/%d", dir, i%40, i), 0o700))
				must(t, os.WriteFile(fmt.Sprintf("%s/%d/%d/f", dir, i%40, i), nil, 0o400))
			}
		},
		"names": func(t *testing.T, dir string) {
			for _, n := range []string{"0", "1", "2", "0/0", "0/1", "a\nb", "\xff\xfe", stagingName, strings.Repeat("x", 255), limboName(kid, 0), " ", "-rf", "*"} {
				must(t, os.MkdirAll(filepath.Join(dir, n, "x"), 0o700))
			}
		},
		"links": func(t *testing.T, dir string) {
			for i, target := range []string{outside, outside + "/sub", "/", ".", "..", "loop", "../../.."} {
				must(t, os.MkdirAll(fmt.Sprintf("%s/%d", dir, i), 0o700))
				must(t, os.Symlink(target, fmt.Sprintf("%s/%d/loop", dir, i)))
			}
			must(t, os.Link(outside+"/file", dir+"/hard"))
		},
		"closed": func(t *testing.T, dir string) {
			must(t, os.MkdirAll(dir+"/a/b/c", 0o700))
			must(t, os.Chmod(dir+"/a/b", 0))
			must(t, os.Chmod(dir+"/a", 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			ensure(t, s, kernelSpec())
			build(t, s.Path(kid)+"/work")
			must(t, s.Remove(t.Context(), kid))
			wantEmpty(t, s)
			must(t, s.Remove(t.Context(), kid))
		})
	}
}

func TestRemoveDoesNotMoveOthers(t *testing.T) {
	s := newStore(t)
	ensure(t, s, kernelSpec())
	for _, other := range []string{kid + "-1", "k"} {
		_, _, err := s.Ensure(t.Context(), other, kernelSpec())
		must(t, err)
	}
	must(t, s.Remove(t.Context(), "k"))
	must(t, s.Remove(t.Context(), kid))
	got, err := s.List(t.Context())
	must(t, err)
	if diff := cmp.Diff([]string{kid + "-1"}, got); diff != "" {
		t.Error(diff)
	}
}

// At whatever entry a removal is cut, nothing is taken for a scratch any more,
// and either way of finishing finishes.
func TestRemoveMayBeCutAnywhere(t *testing.T) {
	for cut := 0; ; cut++ {
		s := newStore(t)
		ensure(t, s, kernelSpec())
		err := s.Remove(&cutCtx{Context: t.Context(), left: cut}, kid)
		if err == nil {
			if cut < 10 {
				t.Fatalf("only %d points to cut at", cut)
			}
			wantEmpty(t, s)
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if names, err := s.List(t.Context()); err != nil || len(names) != 0 {
			t.Fatalf("List: %v, %v", names, err)
		}
		switch cut % 3 {
		case 0:
			must(t, s.Remove(t.Context(), kid))
		case 1:
			must(t, s.CleanRemoving(t.Context()))
		case 2: // made anew while the old one is not gone
			ensure(t, s, kernelSpec())
			must(t, s.Remove(t.Context(), kid))
		}
		wantEmpty(t, s)
	}
}

func TestCleanRemovingFinishesLeftoversOnly(t *testing.T) {
	s := newStore(t)
	ensure(t, s, kernelSpec())
	for _, n := range []string{limboName(kid, 0), limboName(kid, 7), limboName("k-2", 0), ".removing-x", ".other", "plain"} {
		must(t, os.MkdirAll(filepath.Join(s.root, n, "a", "b"), 0o700))
	}
	must(t, s.CleanRemoving(t.Context()))
	entries, err := os.ReadDir(s.root)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff([]string{".other", ".removing-x", kid, "plain"}, got); diff != "" {
		t.Error(diff)
	}
	if ensure(t, s, kernelSpec()) {
		t.Error("the living scratch changed")
	}
	must(t, os.MkdirAll(filepath.Join(s.root, limboName("k-2", 0)), 0o700))
	if err := s.CleanRemoving(&cutCtx{Context: t.Context()}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// setFlags is chattr.
func setFlags(p string, flags uint32) error {
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	old, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(old|flags))
}

func TestRemoveClearsImmutable(t *testing.T) {
	needRoot(t)
	const immutable, appendOnly = 0x10, 0x20
	plain, memory := t.TempDir(), t.TempDir()
	mount(t, memory, "size=1m")
	for fs, root := range map[string]string{"temporary directory": plain, "tmpfs": memory} {
		t.Run(fs, func(t *testing.T) {
			s, err := New(root)
			must(t, err)
			ensure(t, s, kernelSpec())
			dir := s.Path(kid)
			outside := filepath.Join(root, "linked")
			must(t, os.MkdirAll(dir+"/work/im/sub/sub", 0o700))
			must(t, os.WriteFile(outside, nil, 0o600))
			must(t, os.Link(outside, dir+"/work/im/hard"))
			t.Cleanup(func() {
				if f, err := os.Open(outside); err == nil {
					clearFlags(int(f.Fd()))
					_ = f.Close()
				}
			})
			for _, p := range []string{outside, dir + "/work/.bashrc", dir + "/work/im/sub/sub", dir + "/work/im/sub", dir + "/config", dir} {
				err = errors.Join(err, setFlags(p, immutable))
			}
			err = errors.Join(err, setFlags(dir+"/work/im", appendOnly))
			if err != nil {
				// Then nobody can freeze anything here, and it is a plain removal.
				t.Logf("this file system has no flags: %v", err)
			} else if _, _, err := s.Ensure(t.Context(), kid, apis.ScratchSpec{Kind: kindHostdir, Files: []apis.ScratchFile{
				{Path: "config/new", Mode: 0o600, UID: -1, GID: -1},
			}}); !errors.Is(err, apis.ErrUnavailable) || !strings.Contains(err.Error(), "chattr") {
				t.Errorf("Ensure in an immutable directory: %v", err)
			}
			frozenBefore := err == nil
			must(t, s.Remove(t.Context(), kid))
			if _, err := os.Lstat(dir); !isAbsent(err) {
				t.Errorf("still there: %v", err)
			}
			if frozenBefore {
				if err := os.WriteFile(outside, []byte("x"), 0o600); !errors.Is(err, unix.EPERM) {
					t.Errorf("the file outside lost its flag: %v", err)
				}
			}
		})
	}
}

func BenchmarkRemove10kFiles(b *testing.B) {
	s := newStore(b)
	for b.Loop() {
		b.StopTimer()
		ensure(b, s, kernelSpec())
		for i := range 10_000 {
			if i%100 == 0 {
				must(b, os.Mkdir(fmt.Sprintf("%s/work/%d", s.Path(kid), i/100), 0o700))
			}
			must(b, os.WriteFile(fmt.Sprintf("%s/work/%d/%d", s.Path(kid), i/100, i), nil, 0o600))
		}
		b.StartTimer()
		must(b, s.Remove(b.Context(), kid))
	}
}
