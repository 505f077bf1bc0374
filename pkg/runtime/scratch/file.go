// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

const (
	chunk   = 32 << 10
	maxMark = 1024
)

func (t *tree) ensureFile(f apis.ScratchFile) error {
	parent, err := t.openParent(path.Dir(f.Path))
	if err != nil {
		return err
	}
	same, err := t.isThere(parent, f)
	if err != nil || same {
		return err
	}
	return t.put(parent, f)
}

// openParent opens a file's directory, or returns it if the last file was there too.
func (t *tree) openParent(dir string) (int, error) {
	if t.parentPath == dir {
		return t.parent, nil
	}
	t.forgetParent()
	fd, err := openBeneath(t.top, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, explain("open directory", t.host(dir), err)
	}
	t.parent, t.parentPath = fd, dir
	return fd, nil
}

// isThere tells that nothing needs to be written. A file with several links is
// not compared but replaced: its other names may be anywhere.
func (t *tree) isThere(parent int, f apis.ScratchFile) (bool, error) {
	fd, err := openBeneath(parent, path.Base(f.Path), unix.O_PATH|unix.O_NOFOLLOW)
	if isAbsent(err) {
		return false, nil
	}
	if err != nil {
		return false, explain("open", t.host(f.Path), err)
	}
	defer closeFD(fd)
	if f.Once {
		return true, nil
	}
	st, err := stat(fd)
	if err != nil {
		return false, explain("look at", t.host(f.Path), err)
	}
	if isType(st, unix.S_IFDIR) {
		return false, explain("write", t.host(f.Path), unix.EISDIR)
	}
	if !isType(st, unix.S_IFREG) || st.Nlink != 1 || st.Size != int64(len(f.Content)) ||
		st.Mode&0o7777 != f.Mode || !isOwned(st, f.UID, f.GID) {
		return false, nil
	}
	return t.holds(fd, f.Content.Reveal()), nil
}

// holds compares the content of a regular file. One that cannot be read is
// replaced like one that differs.
func (t *tree) holds(fd int, want string) bool {
	in, err := reopenFile(fd)
	if err != nil {
		return false
	}
	defer closeFD(in)
	if t.buf == nil {
		t.buf = make([]byte, chunk)
	}
	for want != "" {
		n, err := read(in, t.buf)
		if err != nil || n == 0 || !strings.HasPrefix(want, string(t.buf[:n])) {
			return false
		}
		want = want[n:]
	}
	return true
}

// reopenFile opens a regular file for reading. O_NONBLOCK: its owner may hold a
// lease on it, which would keep us waiting for most of a minute.
func reopenFile(fd int) (int, error) {
	return reopen(fd, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
}

// put writes a file beside its place and renames it. It is not synced: after a
// power cut it is compared and written again.
func (t *tree) put(parent int, f apis.ScratchFile) error {
	err := t.stage(parent, f)
	if err == nil {
		err = place(parent, path.Base(f.Path), f.Once)
		t.changed = t.changed || err == nil
		if f.Once && errors.Is(err, unix.EEXIST) {
			_ = unix.Unlinkat(parent, stagingName, 0)
			return nil // the kernel made its own meanwhile
		}
	}
	if err != nil {
		_ = unix.Unlinkat(parent, stagingName, 0)
		return explain("write", t.host(f.Path), err)
	}
	return nil
}

// place gives what is staged its name; keep forbids to replace what is there.
func place(parent int, name string, keep bool) error {
	if !keep {
		return unix.Renameat(parent, stagingName, parent, name)
	}
	err := unix.Renameat2(parent, stagingName, parent, name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// This file system cannot. A cut between the next two would leave a
		// second name behind, so they are the second choice.
		if err = unix.Linkat(parent, stagingName, parent, name, 0); err == nil {
			err = unix.Unlinkat(parent, stagingName, 0)
		}
	}
	return err
}

// stage writes the complete file under the staging name, private until the end.
func (t *tree) stage(parent int, f apis.ScratchFile) error {
	var fd int
	err := unlessLeft(parent, func() (err error) {
		fd, err = unix.Openat(parent, stagingName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s beside it: %w", stagingName, err)
	}
	err = t.fill(fd, f)
	// Some file systems report a full disk only here.
	return errors.Join(err, unix.Close(fd))
}

// unlessLeft makes something under the staging name, and once more without what
// an interrupted write left there.
func unlessLeft(dir int, stage func() error) error {
	err := stage()
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	err = unix.Unlinkat(dir, stagingName, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(dir, stagingName, unix.AT_REMOVEDIR)
	}
	if err != nil && !isAbsent(err) {
		return err
	}
	return stage()
}

func (t *tree) fill(fd int, f apis.ScratchFile) error {
	for rest := []byte(f.Content.Reveal()); len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		rest = rest[max(n, 0):]
	}
	if f.UID != -1 || f.GID != -1 {
		if err := unix.Fchown(fd, f.UID, f.GID); err != nil {
			return t.chownFailed(f.Path, f.UID, f.GID, err)
		}
	}
	return unix.Fchmod(fd, f.Mode)
}

// read is read(2) that is not interrupted.
func read(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// readMark returns whose scratch the directory is.
func readMark(top int) (owner string, marked bool, err error) {
	data, err := readFile(top, markName, maxMark)
	if isAbsent(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return strings.TrimSuffix(string(data), "\n"), true, nil
}
