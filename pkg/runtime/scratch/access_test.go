// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

// asUser runs fn with the file access of another user, without privileges.
func asUser(t *testing.T, uid int, fn func()) {
	t.Helper()
	needRoot(t)
	var one sync.WaitGroup
	one.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		_, _ = unix.SetfsgidRetGid(uid)
		_, _ = unix.SetfsuidRetUid(uid)
		if now, _ := unix.SetfsuidRetUid(-1); now != uid {
			t.Errorf("could not become %d", uid)
			return
		}
		fn()
	})
	one.Wait()
}

// openTo lets other users pass a test's directory and the one that holds it.
func openTo(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
}

// B136: neither other kernels nor other local users see a kernel's secrets.
func TestSecretsAreUnreadableToOthers(t *testing.T) {
	needRoot(t)
	s := newStore(t)
	openTo(t, filepath.Dir(s.root))
	ensure(t, s, kernelSpec())
	dir := s.Path(kid)
	for _, uid := range []int{2002, 65534} {
		asUser(t, uid, func() {
			for _, p := range []string{
				s.root, dir, dir + "/config", dir + "/config/environ.txt", dir + "/config/ssh", dir + "/config/ssh/id_cluster",
				dir + "/work/.ssh", dir + "/work/.ssh/id_rsa", dir + "/run", dir + "/" + markName,
			} {
				if f, err := os.Open(p); !errors.Is(err, os.ErrPermission) {
					t.Errorf("uid %d opens %s: %v", uid, p, err)
					_ = f.Close()
				}
			}
			if err := os.WriteFile(dir+"/x", nil, 0o600); !errors.Is(err, os.ErrPermission) {
				t.Errorf("uid %d writes beside the kernel's directories: %v", uid, err)
			}
		})
	}
	asUser(t, 2001, func() {
		if _, err := os.ReadFile(dir + "/work/.ssh/id_rsa"); !errors.Is(err, os.ErrPermission) {
			t.Errorf("on the host, the kernel's user reaches its files other than by its mounts: %v", err)
		}
		if err := os.Rename(dir+"/work", dir+"/gone"); !errors.Is(err, os.ErrPermission) {
			t.Errorf("the kernel moves its work directory: %v", err)
		}
	})
}

// agentd without root: its own uid and -1 work, another owner is a clear error,
// and what its owner closed is opened again.
func TestWithoutPrivileges(t *testing.T) {
	needRoot(t)
	s := newStore(t)
	openTo(t, filepath.Dir(s.root))
	must(t, os.Chown(s.root, 2001, 2001))
	s.euid = 2001
	asUser(t, 2001, func() {
		spec := kernelSpec()
		ensure(t, s, spec)
		if ensure(t, s, spec) {
			t.Error("not settled")
		}
		for _, closed := range []string{"run", "work/.config/app", "work/.config"} {
			if err := os.Chmod(filepath.Join(s.Path(kid), closed), 0); err != nil {
				t.Error(err)
			}
		}
		spec.Files = spec.Files[:2]
		ensure(t, s, spec)
		spec.Files[0].UID = 2002
		_, _, err := s.Ensure(t.Context(), kid, spec)
		if term, ok := apis.AsTerminal(err); !ok || term.Reason != apis.ReasonStorage || errors.Is(err, apis.ErrUnavailable) {
			t.Errorf("another owner: %v", err)
		}
		if want := fmt.Sprintf("give %q to 2002:-1", s.Path(kid)+"/config/environ.txt"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not say %s", err, want)
		}
		if err := os.Chmod(s.Path(kid)+"/work", 0o500); err != nil {
			t.Error(err)
		}
		if err := s.Remove(t.Context(), kid); err != nil {
			t.Error(err)
		}
		if err := os.Chmod(s.root, 0o100); err != nil {
			t.Error(err)
		}
		if _, _, err := s.Ensure(t.Context(), kid, spec); !errors.Is(err, apis.ErrUnavailable) || !strings.Contains(err.Error(), s.root) {
			t.Errorf("closed root: %v", err)
		}
		if _, err := s.List(t.Context()); !errors.Is(err, apis.ErrUnavailable) {
			t.Errorf("List of a closed root: %v", err)
		}
	})
	if left := treeOf(t, s.root); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}
