// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

// plants are what a kernel may put anywhere in what it owns.
func plants(t *testing.T, outside string) map[string]func(string) error {
	t.Helper()
	m := map[string]func(string) error{
		"link to directory": linkTo(outside),
		"link to file":      linkTo(outside + "/file"),
		"link to itself":    func(p string) error { return os.Symlink(filepath.Base(p), p) },
		"link upwards":      linkTo("../../../.."),
		"dangling link":     linkTo(outside + "/new"),
		"pipe":              mkfifo,
		"hard link":         func(p string) error { return os.Link(outside+"/file", p) },
		"socket":            func(p string) error { return unix.Mknod(p, unix.S_IFSOCK|0o666, 0) },
		"file":              func(p string) error { return os.WriteFile(p, []byte("x"), 0o666) },
		"full directory": func(p string) error {
			return errors.Join(os.MkdirAll(p+"/a/b", 0o700), os.Symlink(outside, p+"/a/out"), os.Link(outside+"/file", p+"/a/hard"))
		},
	}
	if os.Geteuid() == 0 {
		dev := func(kind uint32) func(string) error {
			return func(p string) error { return unix.Mknod(p, kind|0o666, int(unix.Mkdev(1, 3))) }
		}
		probe := filepath.Join(t.TempDir(), "dev")
		if err := dev(unix.S_IFCHR)(probe); err != nil {
			t.Logf("no device nodes here: %v", err)
			return m
		}
		m["character device"], m["block device"] = dev(unix.S_IFCHR), dev(unix.S_IFBLK)
	}
	return m
}

// Everything is planted at every place. Ensure repairs it or refuses, Read
// returns no more than the scratch's own, Remove removes, all without waiting
// and without a trace outside (canary).
func TestHostileTrees(t *testing.T) {
	outside := canary(t)
	for what, plant := range plants(t, outside) {
		for place := range wantTree() {
			if place == "." || place == markName && what == "file" { // that is another agent's mark
				continue
			}
			t.Run(what+" at "+strings.ReplaceAll(place, "/", "|"), func(t *testing.T) {
				s := newStore(t, WithOwner("agent-1"))
				ensure(t, s, kernelSpec())
				must(t, swap(filepath.Join(s.Path(kid), place), plant))

				if data, err := s.Read(t.Context(), kid, "work/.ssh/authorized_keys"); strings.Contains(string(data), "precious") {
					t.Errorf("read from outside: %q, %v", data, err)
				}
				if _, _, err := s.Ensure(t.Context(), kid, kernelSpec()); err == nil {
					if ensure(t, s, kernelSpec()) {
						t.Error("not settled")
					}
				} else if !errors.Is(err, apis.ErrConflict) || !strings.Contains(err.Error(), s.Path(kid)) {
					t.Errorf("Ensure: %v", err)
				}
				_, err := s.Read(t.Context(), kid, "work/.ssh/authorized_keys")
				if err != nil && !errors.Is(err, apis.ErrConflict) && !errors.Is(err, apis.ErrNotFound) {
					t.Errorf("Read: %v", err)
				}
				if _, err := s.List(t.Context()); err != nil && !errors.Is(err, apis.ErrConflict) {
					t.Errorf("List: %v", err)
				}
				must(t, s.Remove(t.Context(), kid))
				if left := treeOf(t, s.root); len(left) != 1 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

func TestWhatIsInTheWayOfTheScratchItself(t *testing.T) {
	outside := canary(t)
	for what, plant := range plants(t, outside) {
		t.Run(what, func(t *testing.T) {
			s := newStore(t)
			must(t, plant(s.Path(kid)))
			_, _, err := s.Ensure(t.Context(), kid, kernelSpec())
			if what == "full directory" {
				must(t, err) // like a scratch of the time before agentd
			} else if !errors.Is(err, apis.ErrConflict) {
				t.Errorf("Ensure: %v", err)
			}
			if _, err := s.Read(t.Context(), kid, "file"); !errors.Is(err, apis.ErrConflict) && !errors.Is(err, apis.ErrNotFound) {
				t.Errorf("Read: %v", err)
			}
			must(t, s.Remove(t.Context(), kid))
			if left := treeOf(t, s.root); len(left) != 1 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestSomebodyElsesDirectoryIsRefused(t *testing.T) {
	needRoot(t)
	s := newStore(t)
	must(t, os.Mkdir(s.Path(kid), 0o755))
	must(t, os.Chown(s.Path(kid), 2002, 2002))
	if _, _, err := s.Ensure(t.Context(), kid, kernelSpec()); !errors.Is(err, apis.ErrConflict) || !strings.Contains(err.Error(), "uid 2002") {
		t.Errorf("Ensure: %v", err)
	}
}

// A file with a second name is replaced, even if all is right with it: neither
// its mode nor its owner nor its content may change under the other name.
func TestHardLinkedFileIsReplaced(t *testing.T) {
	s := newStore(t)
	ensure(t, s, kernelSpec())
	for _, mode := range []os.FileMode{0o600, 0o604} {
		p := s.Path(kid) + "/work/.ssh/authorized_keys"
		other := filepath.Join(t.TempDir(), "other")
		must(t, os.Link(p, other))
		must(t, os.Chmod(other, mode))
		before := inode(t, other)
		if !ensure(t, s, kernelSpec()) {
			t.Error("not replaced")
		}
		st, err := os.Stat(other)
		must(t, err)
		if inode(t, p) == before || st.Mode() != mode {
			t.Errorf("same inode or mode %v", st.Mode())
		}
	}
}

// What the kernel makes between the look and the placing of a Once file stays.
func TestOnceDoesNotReplaceWhatCameMeanwhile(t *testing.T) {
	s := newStore(t)
	ensure(t, s, kernelSpec())
	root, err := s.openRoot()
	must(t, err)
	defer closeFD(root)
	tr, err := s.ensureTop(root, kid)
	must(t, err)
	defer tr.close()
	work, err := tr.openParent("work")
	must(t, err)
	must(t, os.WriteFile(s.Path(kid)+"/work/.bashrc", []byte("mine"), 0o600))
	must(t, tr.put(work, kernelSpec().Files[3]))
	if got := treeOf(t, s.Path(kid)+"/work"); !strings.HasSuffix(got[".bashrc"], "mine") || got[stagingName] != "" || tr.changed {
		t.Errorf("%v, changed %v", got, tr.changed)
	}
}

// A name that agentd needs for a moment may be blocked, but only so that it tells.
func TestBlockedStagingName(t *testing.T) {
	s := newStore(t)
	ensure(t, s, kernelSpec())
	ssh := s.Path(kid) + "/work/.ssh"
	must(t, os.MkdirAll(ssh+"/"+stagingName+"/full", 0o700))
	must(t, os.Remove(ssh+"/authorized_keys"))
	_, _, err := s.Ensure(t.Context(), kid, kernelSpec())
	if !errors.Is(err, apis.ErrConflict) || !strings.Contains(err.Error(), stagingName) {
		t.Errorf("Ensure: %v", err)
	}
	must(t, s.Remove(t.Context(), kid))
}

// The kernel swaps directories for links to the outside while Ensure and
// Remove work.
func TestRaceWithSwaps(t *testing.T) {
	outside := canary(t)
	s := newStore(t)
	ensure(t, s, kernelSpec())
	root, err := s.openRoot()
	must(t, err)
	defer closeFD(root)
	done := make(chan struct{})
	var kernel sync.WaitGroup
	for _, place := range []string{".ssh", ".config/app", ".config"} {
		kernel.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				// The kernel itself cannot follow its links to the outside.
				parent, err := openBeneath(root, filepath.Join(kid, "work", filepath.Dir(place)), unix.O_PATH|unix.O_DIRECTORY)
				if err != nil {
					continue
				}
				// Whatever fails, fails because Ensure or another swap was faster.
				name, away := filepath.Base(place), filepath.Base(place)+".away"
				_ = unix.Renameat(parent, name, parent, away)
				_ = unix.Symlinkat([]string{outside, outside + "/sub", "/", "."}[i%4], parent, name)
				runtime.Gosched()
				_ = unix.Unlinkat(parent, name, 0)
				_ = unix.Renameat(parent, away, parent, name)
				_ = unix.Symlinkat(outside+"/file", parent, stagingName)
				_ = unix.Mkdirat(parent, name, 0o700)
				closeFD(parent)
			}
		})
	}
	worked := 0
	for until := time.Now().Add(2 * time.Second); time.Now().Before(until); {
		_, _, err := s.Ensure(t.Context(), kid, kernelSpec())
		if err == nil {
			worked++
		} else if !errors.Is(err, apis.ErrConflict) && !isAbsent(err) {
			t.Errorf("Ensure: %v", err)
		}
		if worked%5 == 4 {
			must(t, s.Remove(t.Context(), kid))
		}
	}
	close(done)
	kernel.Wait()
	if worked == 0 {
		t.Error("never got through")
	}
	must(t, s.Remove(t.Context(), kid))
	if left := treeOf(t, s.root); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// A lease makes whoever opens the file wait until its owner gives it up.
func TestLeaseDoesNotHoldUp(t *testing.T) {
	s := newStore(t)
	ensure(t, s, kernelSpec())
	f, err := os.OpenFile(s.Path(kid)+"/work/.ssh/authorized_keys", os.O_RDWR, 0)
	must(t, err)
	defer func() { _ = f.Close() }()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatalf("lease: %v", err)
	}
	if _, err := s.Read(t.Context(), kid, "work/.ssh/authorized_keys"); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("Read: %v", err)
	}
	if !ensure(t, s, kernelSpec()) {
		t.Error("not replaced")
	}
	data, err := s.Read(t.Context(), kid, "work/.ssh/authorized_keys")
	if err != nil || string(data) != "content of work/.ssh/authorized_keys\n" {
		t.Errorf("Read: %q, %v", data, err)
	}
}

func TestRead(t *testing.T) {
	s := newStore(t)
	ensure(t, s, kernelSpec())
	dir := s.Path(kid)
	must(t, os.WriteFile(dir+"/work/limit", make([]byte, maxRead), 0o600))
	must(t, os.WriteFile(dir+"/work/large", make([]byte, maxRead+1), 0o600))
	must(t, os.WriteFile(dir+"/work/empty", nil, 0o600))
	must(t, unix.Truncate(dir+"/work/large", 1<<40))
	must(t, os.Link(dir+"/work/empty", dir+"/work/twice1"))
	must(t, os.Link(dir+"/work/large", dir+"/work/twice2"))
	must(t, os.WriteFile(dir+"/work/larger", nil, 0o600))
	must(t, unix.Truncate(dir+"/work/larger", 1<<40))
	must(t, os.WriteFile(dir+"/work/void", nil, 0o600))
	must(t, os.Symlink("limit", dir+"/work/link"))
	must(t, os.Symlink(".", dir+"/work/dirlink"))
	for path, want := range map[string]any{
		"config/environ.txt":      len("content of config/environ.txt\n"),
		"work/limit":              maxRead,
		"work/void":               0,
		"work/empty":              apis.ErrConflict, // it has two names
		"work/large":              apis.ErrConflict,
		"work/larger":             errTooLarge,
		"work/link":               apis.ErrConflict,
		"work/dirlink/limit":      apis.ErrConflict,
		"work":                    apis.ErrConflict,
		"work/absent":             apis.ErrNotFound,
		"absent/absent":           apis.ErrNotFound,
		"config/environ.txt/x":    apis.ErrNotFound,
		"../" + kid + "/config/x": apis.ErrInvalid,
		"/etc/passwd":             apis.ErrInvalid,
		"":                        apis.ErrInvalid,
	} {
		data, err := s.Read(t.Context(), kid, path)
		switch want := want.(type) {
		case int:
			if err != nil || len(data) != want {
				t.Errorf("%s: %d bytes, %v", path, len(data), err)
			}
		case error:
			if !errors.Is(err, want) || data != nil {
				t.Errorf("%s: %d bytes, %v; want %v", path, len(data), err, want)
			}
		}
	}
	if _, err := s.Read(t.Context(), "other", "config/x"); !errors.Is(err, apis.ErrNotFound) {
		t.Errorf("no scratch: %v", err)
	}
	if _, err := s.Read(&cutCtx{Context: t.Context()}, kid, "config/environ.txt"); err == nil {
		t.Error("a cancelled context was ignored")
	}
}
