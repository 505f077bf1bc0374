// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

// wantTree is what kernelSpec makes, whatever the umask is.
func wantTree() map[string]string {
	me, u := fmt.Sprintf(" %d:%d ", os.Geteuid(), os.Getegid()), fmt.Sprintf(" %d:%d ", user(), user())
	file := func(mode, owner, p string) string { return mode + owner + "content of " + p + "\n" }
	return map[string]string{
		".":                              "drwx------" + me,
		".agentd":                        "-rw-------" + me + "agent-1\n",
		"config":                         "drwx------" + me,
		"config/environ.txt":             file("-rw-------", me, "config/environ.txt"),
		"config/resource.txt":            file("-rw-r--r--", me, "config/resource.txt"),
		"config/ssh":                     "drwx------" + me,
		"config/ssh/id_cluster":          file("-rw-------", u, "config/ssh/id_cluster"),
		"run":                            "drwx------" + u,
		"tmp":                            "dtrwxrwxrwx" + me,
		"work":                           "drwxr-xr-x" + u,
		"work/.bashrc":                   file("-rw-r--r--", u, "work/.bashrc"),
		"work/.ssh":                      "drwx------" + u,
		"work/.ssh/authorized_keys":      file("-rw-------", u, "work/.ssh/authorized_keys"),
		"work/.ssh/id_rsa":               file("-rw-------", u, "work/.ssh/id_rsa"),
		"work/.config":                   "drwxr-xr-x" + u,
		"work/.config/app":               "drwxr-xr-x" + u,
		"work/.config/app/settings.json": file("-rw-r-----", u, "work/.config/app/settings.json"),
	}
}

func TestEnsureMakesAllWithModeAndOwner(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		t.Run(fmt.Sprintf("umask %03o", umask), func(t *testing.T) {
			parent := t.TempDir()
			old := unix.Umask(umask)
			defer unix.Umask(old)
			s, err := New(filepath.Join(parent, "a", "scratches"), WithOwner("agent-1"))
			must(t, err)
			if st, err := os.Stat(s.root); err != nil || st.Mode().Perm() != 0o711 {
				t.Errorf("root: %v, %v; want 0711", st.Mode(), err)
			}
			if !ensure(t, s, kernelSpec()) {
				t.Error("a fresh scratch is not a change")
			}
			if diff := cmp.Diff(wantTree(), treeOf(t, s.Path(kid))); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
			if ensure(t, s, kernelSpec()) {
				t.Error("the second Ensure changed something")
			}
		})
	}
}

// The inode tells whether a file was written again.
func inode(t *testing.T, p string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(p, &st))
	return st.Ino
}

func TestEnsureRepairs(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(dir string) error
		// kept is the content of work/.bashrc, a Once file, afterwards.
		kept      string
		unchanged bool
	}{
		"nothing":         {damage: func(string) error { return nil }, unchanged: true},
		"content":         {damage: func(d string) error { return os.WriteFile(d+"/config/environ.txt", []byte("X=1"), 0o600) }},
		"same size":       {damage: func(d string) error { return rewrite(d + "/config/environ.txt") }},
		"file mode":       {damage: func(d string) error { return os.Chmod(d+"/work/.ssh/authorized_keys", 0o666) }},
		"file gone":       {damage: func(d string) error { return os.Remove(d + "/work/.ssh/authorized_keys") }},
		"dir mode":        {damage: func(d string) error { return os.Chmod(d+"/work/.ssh", 0o777) }},
		"dir setgid":      {damage: func(d string) error { return os.Chmod(d+"/work", 0o755|os.ModeSetgid) }},
		"dir closed":      {damage: func(d string) error { return os.Chmod(d+"/run", 0) }},
		"dir gone":        {damage: func(d string) error { return os.RemoveAll(d + "/work/.ssh") }},
		"implied gone":    {damage: func(d string) error { return os.RemoveAll(d + "/work/.config") }},
		"top mode":        {damage: func(d string) error { return os.Chmod(d, 0o755) }},
		"mark gone":       {damage: func(d string) error { return os.Remove(d + "/" + markName) }},
		"file as pipe":    {damage: func(d string) error { return swap(d+"/work/.ssh/authorized_keys", mkfifo) }},
		"file as link":    {damage: func(d string) error { return swap(d+"/config/environ.txt", linkTo("/etc/passwd")) }},
		"file as dangler": {damage: func(d string) error { return swap(d+"/config/environ.txt", linkTo("nowhere")) }},
		"staging left":    {damage: func(d string) error { return leave(d, "config/environ.txt", "config/"+stagingName, false) }},
		"staging dir":     {damage: func(d string) error { return leave(d, "work/.ssh/authorized_keys", "work/.ssh/"+stagingName, true) }},
		"once changed": {
			damage:    func(d string) error { return os.WriteFile(d+"/work/.bashrc", []byte("mine"), 0o600) },
			kept:      "mine",
			unchanged: true,
		},
		"once gone": {damage: func(d string) error { return os.Remove(d + "/work/.bashrc") }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, WithOwner("agent-1"))
			ensure(t, s, kernelSpec())
			dir := s.Path(kid)
			resource := inode(t, dir+"/config/resource.txt")
			must(t, tc.damage(dir))
			if changed := ensure(t, s, kernelSpec()); changed == tc.unchanged {
				t.Errorf("changed = %v", changed)
			}
			if got := inode(t, dir+"/config/resource.txt"); got != resource {
				t.Error("an unharmed file was written again")
			}
			want := wantTree()
			if tc.kept != "" {
				want["work/.bashrc"] = treeOf(t, dir)["work/.bashrc"]
				if !strings.HasSuffix(want["work/.bashrc"], tc.kept) {
					t.Errorf("the kernel's own file was changed: %q", want["work/.bashrc"])
				}
			}
			if diff := cmp.Diff(want, treeOf(t, dir)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
			if ensure(t, s, kernelSpec()) {
				t.Error("not settled")
			}
		})
	}
}

func rewrite(p string) error {
	data, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	data[0] ^= 1
	return os.WriteFile(p, data, 0o600)
}

func swap(p string, plant func(string) error) error {
	if err := os.RemoveAll(p); err != nil {
		return err
	}
	return plant(p)
}

func mkfifo(p string) error { return unix.Mkfifo(p, 0o666) }

func linkTo(target string) func(string) error {
	return func(p string) error { return os.Symlink(target, p) }
}

// leave makes what a cut between staging and rename leaves.
func leave(d, missing, staging string, asDir bool) error {
	if err := os.Remove(filepath.Join(d, missing)); err != nil {
		return err
	}
	if asDir {
		return os.Mkdir(filepath.Join(d, staging), 0o700)
	}
	return os.WriteFile(filepath.Join(d, staging), []byte("half"), 0o600)
}

func TestImpliedDirectoryIsLeftAsItIs(t *testing.T) {
	s := newStore(t)
	ensure(t, s, kernelSpec())
	p := s.Path(kid) + "/work/.config"
	must(t, os.Chmod(p, 0o700))
	if ensure(t, s, kernelSpec()) {
		t.Error("changed")
	}
	if st, err := os.Stat(p); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

func TestEnsureMayBeCutAnywhere(t *testing.T) {
	for cut := 0; ; cut++ {
		s := newStore(t, WithOwner("agent-1"))
		_, _, err := s.Ensure(&cutCtx{Context: t.Context(), left: cut}, kid, kernelSpec())
		if err == nil {
			if cut < 10 {
				t.Fatalf("only %d points to cut at", cut)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		ensure(t, s, kernelSpec())
		if diff := cmp.Diff(wantTree(), treeOf(t, s.Path(kid))); diff != "" {
			t.Fatalf("cut %d (-want +got):\n%s", cut, diff)
		}
	}
}

func TestAnotherAgentsScratchIsRefused(t *testing.T) {
	s := newStore(t, WithOwner("agent-1"))
	ensure(t, s, kernelSpec())
	before := treeOf(t, s.root)
	other, err := New(s.root, WithOwner("agent-2"))
	must(t, err)
	if _, _, err := other.Ensure(t.Context(), kid, kernelSpec()); !errors.Is(err, apis.ErrConflict) || !strings.Contains(err.Error(), `"agent-1"`) {
		t.Errorf("Ensure: %v", err)
	}
	if err := other.Remove(t.Context(), kid); !errors.Is(err, apis.ErrConflict) {
		t.Errorf("Remove: %v", err)
	}
	if names, err := other.List(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("List: %v, %v", names, err)
	}
	if diff := cmp.Diff(before, treeOf(t, s.root)); diff != "" {
		t.Errorf("changed:\n%s", diff)
	}
}

func TestListNamesOnlyOurScratches(t *testing.T) {
	s := newStore(t, WithOwner("agent-1"))
	ensure(t, s, kernelSpec())
	_, _, err := s.Ensure(t.Context(), "k-1", kernelSpec())
	must(t, err)
	for _, d := range []string{"lost+found", "somebody", limboName("k-2", 0), ".hidden", "pipe-mark"} {
		must(t, os.Mkdir(filepath.Join(s.root, d), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(s.root, "a.img"), nil, 0o600))
	must(t, os.Symlink(kid, filepath.Join(s.root, "link")))
	must(t, os.Symlink("../"+kid+"/"+markName, filepath.Join(s.root, "somebody", markName)))
	got, err := s.List(t.Context())
	must(t, err)
	if diff := cmp.Diff([]string{kid, "k-1"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A reader sees the old content or the new, and never no file.
func TestReadersNeverSeeATornFile(t *testing.T) {
	s := newStore(t)
	contents := []apis.Secret{apis.Secret(strings.Repeat("a", 300_000)), apis.Secret(strings.Repeat("b", 200_000))}
	spec := apis.ScratchSpec{Kind: kindHostdir, Files: []apis.ScratchFile{{Path: "config/f", Mode: 0o600, UID: -1, GID: -1}}}
	write := func(i int) {
		spec.Files[0].Content = contents[i%2]
		if !ensure(t, s, spec) {
			t.Error("not changed")
		}
	}
	write(0)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				data, err := os.ReadFile(s.Path(kid) + "/config/f")
				if err != nil || string(data) != contents[0].Reveal() && string(data) != contents[1].Reveal() {
					t.Errorf("read %d bytes, %v", len(data), err)
					return
				}
			}
		})
	}
	for i := 1; i < 200; i++ {
		write(i)
	}
	close(done)
	readers.Wait()
}

func TestWorkOnOneScratchIsSerial(t *testing.T) {
	s := newStore(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				if i%4 == 3 {
					if err := s.Remove(t.Context(), kid); err != nil {
						t.Error(err)
					}
				} else if _, _, err := s.Ensure(t.Context(), kid, kernelSpec()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	must(t, s.Remove(t.Context(), kid))
	if left := treeOf(t, s.root); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	unlock, err := s.lock(t.Context(), kid)
	must(t, err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Ensure(ctx, kid, kernelSpec()); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait: %v", err)
	}
}
