// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

// Ensure makes directories and files as wanted and returns the host path.
// It may be cut anywhere and simply called again. What is right already is not
// written. Disk errors are ErrUnavailable; something that the kernel or an
// operator put in the way of a directory is ErrConflict and stays untouched.
func (s *Store) Ensure(ctx context.Context, name string, spec apis.ScratchSpec) (dir string, changed bool, err error) {
	if err := checkName(name); err != nil {
		return "", false, err
	}
	lay, err := planLayout(spec)
	if err != nil {
		return "", false, fmt.Errorf("scratch %s: %w", name, err)
	}
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	root, err := s.openRoot()
	if err != nil {
		return "", false, err
	}
	defer closeFD(root)
	t, err := s.ensureTop(root, name)
	if err != nil {
		return "", t.changed, err
	}
	defer t.close()
	if err := t.apply(ctx, lay); err != nil {
		return "", t.changed, err
	}
	return t.path, t.changed, nil
}

// tree is one scratch that is being brought in order.
type tree struct {
	top     int
	path    string
	euid    int
	changed bool

	// parent is the directory of the last file, since files come in groups.
	parent     int
	parentPath string
	buf        []byte
}

func (t *tree) close() {
	t.forgetParent()
	closeFD(t.top)
}

func (t *tree) forgetParent() {
	if t.parentPath != "" {
		closeFD(t.parent)
		t.parentPath = ""
	}
}

// host is the full path of something in the scratch, for messages only.
func (t *tree) host(rel string) string { return filepath.Join(t.path, rel) }

// ensureTop opens or makes the scratch's own directory.
func (s *Store) ensureTop(root int, name string) (*tree, error) {
	t := &tree{top: -1, path: s.Path(name), euid: s.euid}
	fd, err := openBeneath(root, name, unix.O_PATH|unix.O_DIRECTORY)
	if isAbsent(err) {
		return t, s.makeTop(t, root, name)
	}
	if err != nil {
		return t, explain("open scratch", t.path, err)
	}
	t.top = fd
	if err := s.settleTop(t); err != nil {
		closeFD(fd)
		return t, err
	}
	return t, nil
}

// makeTop makes the directory under a limbo name and renames it when it is
// marked: no scratch is ever seen without its owner and mode.
func (s *Store) makeTop(t *tree, root int, name string) error {
	limbo, err := s.newLimbo(root, name)
	if err != nil {
		return explain("make scratch", t.path, err)
	}
	t.top, err = openBeneath(root, limbo, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		err = s.settleTop(t)
	}
	if err == nil {
		err = unix.Renameat(root, limbo, root, name)
	}
	if err == nil {
		t.changed = true
		return nil
	}
	// Best effort: whatever stays is found by CleanRemoving.
	if t.top >= 0 {
		_ = unix.Unlinkat(t.top, markName, 0)
		closeFD(t.top)
	}
	_ = unix.Unlinkat(root, limbo, unix.AT_REMOVEDIR)
	return explain("make scratch", t.path, err)
}

// settleTop checks that the directory is ours, and sets its mode and mark.
func (s *Store) settleTop(t *tree) error {
	st, err := stat(t.top)
	if err != nil {
		return explain("look at scratch", t.path, err)
	}
	if int64(st.Uid) != int64(s.euid) {
		return fmt.Errorf("scratch %q: %w: it belongs to uid %d, not to agentd's %d; remove it", t.path, apis.ErrConflict, st.Uid, s.euid)
	}
	owner, marked, err := readMark(t.top)
	if err != nil {
		return explain("read", t.host(markName), err)
	}
	if marked && owner != s.owner {
		return foreign(t.path, owner)
	}
	if st.Mode&0o7777 != topMode {
		if err := unix.Chmod(procPath(t.top), topMode); err != nil {
			return explain("set the mode of", t.path, err)
		}
		t.changed = true
	}
	if marked {
		return nil
	}
	mark := apis.ScratchFile{Path: markName, Mode: 0o600, UID: -1, GID: -1, Content: apis.Secret(s.owner + "\n")}
	return t.put(t.top, mark)
}

func foreign(path, owner string) error {
	return fmt.Errorf("scratch %q: %w: it belongs to agent %q; give each agent its own container.scratch-root, or remove it",
		path, apis.ErrConflict, owner)
}

// newLimbo makes a private directory under the first free limbo name.
func (s *Store) newLimbo(root int, name string) (string, error) {
	for n := 0; ; n++ {
		limbo := limboName(name, n)
		if err := unix.Mkdirat(root, limbo, 0o700); !errors.Is(err, unix.EEXIST) {
			return limbo, err
		}
	}
}

func (t *tree) apply(ctx context.Context, lay layout) error {
	for _, d := range lay.dirs {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("scratch %q: %w", t.path, err)
		}
		if err := t.ensureDir(d); err != nil {
			return err
		}
	}
	for _, f := range lay.files {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("scratch %q: %w", t.path, err)
		}
		if err := t.ensureFile(f); err != nil {
			return err
		}
	}
	return nil
}

func (t *tree) ensureDir(d layoutDir) error {
	fd, err := openBeneath(t.top, d.Path, unix.O_PATH|unix.O_DIRECTORY)
	if isAbsent(err) {
		return t.makeDir(d)
	}
	if err != nil {
		return explain("open directory", t.host(d.Path), err)
	}
	defer closeFD(fd)
	if d.implied {
		return nil
	}
	changed, err := t.settleDir(fd, d)
	t.changed = t.changed || changed
	return err
}

// makeDir makes the directory beside its place and renames it when owner and
// mode are right: a cut between them would go unnoticed in an implied one.
func (t *tree) makeDir(d layoutDir) error {
	parent, err := openBeneath(t.top, path.Dir(d.Path), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return explain("open directory", t.host(path.Dir(d.Path)), err)
	}
	defer closeFD(parent)
	if err := unlessLeft(parent, func() error { return unix.Mkdirat(parent, stagingName, 0o700) }); err != nil {
		return explain("make directory", t.host(d.Path), fmt.Errorf("%s beside it: %w", stagingName, err))
	}
	fd, err := openBeneath(parent, stagingName, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		_, err = t.settleDir(fd, d)
		closeFD(fd)
	}
	if err == nil {
		err = unix.Renameat(parent, stagingName, parent, path.Base(d.Path))
	}
	if err != nil {
		_ = unix.Unlinkat(parent, stagingName, unix.AT_REMOVEDIR)
		return explain("make directory", t.host(d.Path), err)
	}
	t.changed = true
	return nil
}

// settleDir sets owner and mode through the descriptor.
func (t *tree) settleDir(fd int, d layoutDir) (changed bool, err error) {
	st, err := stat(fd)
	if err != nil {
		return false, explain("look at directory", t.host(d.Path), err)
	}
	if !isOwned(st, d.UID, d.GID) {
		if err := unix.Fchownat(fd, "", d.UID, d.GID, unix.AT_EMPTY_PATH); err != nil {
			return false, t.chownFailed(d.Path, d.UID, d.GID, err)
		}
		changed = true
	}
	if st.Mode&0o7777 != d.Mode {
		if err := unix.Chmod(procPath(fd), d.Mode); err != nil {
			return changed, explain("set the mode of", t.host(d.Path), err)
		}
		changed = true
	}
	return changed, nil
}

func isOwned(st unix.Stat_t, uid, gid int) bool {
	return (uid == -1 || int64(st.Uid) == int64(uid)) && (gid == -1 || int64(st.Gid) == int64(gid))
}

// chownFailed tells a want of privilege, which waiting does not mend, from the
// rest.
func (t *tree) chownFailed(rel string, uid, gid int, err error) error {
	if t.euid != 0 && errors.Is(err, unix.EPERM) {
		return apis.Terminalf(apis.ReasonStorage,
			"give %q to %d:%d: %w; run agentd as root, or set container.kernel-uid and kernel-gid to -1", t.host(rel), uid, gid, err)
	}
	return explain(fmt.Sprintf("give to %d:%d", uid, gid), t.host(rel), err)
}
