// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

// Remove removes all of a scratch, and what earlier removals left of it; absent
// is success. Links are never followed. A mount inside is ErrConflict, and
// nothing is touched then: whoever mounted it must unmount it.
func (s *Store) Remove(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	root, err := s.openRoot()
	if err != nil {
		return err
	}
	defer closeFD(root)
	if err := s.checkOurs(root, name); err != nil {
		return err
	}
	err = s.discard(ctx, root, name, name)
	left, errList := s.leftovers(ctx, root, name)
	err = errors.Join(err, errList)
	for _, entry := range left {
		err = errors.Join(err, s.discard(ctx, root, entry, name))
	}
	return err
}

// CleanRemoving finishes what was half made or half removed when agentd ended.
// It goes on after an error and returns all of them.
func (s *Store) CleanRemoving(ctx context.Context) error {
	root, err := s.openRoot()
	if err != nil {
		return err
	}
	defer closeFD(root)
	entries, err := s.leftovers(ctx, root, "")
	for _, entry := range entries {
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		name, _ := limboOwner(entry)
		err = errors.Join(err, s.cleanOne(ctx, root, entry, name))
	}
	return err
}

// cleanOne waits until nobody makes or removes the scratch, since its limbo
// directory is no leftover until then.
func (s *Store) cleanOne(ctx context.Context, root int, entry, name string) error {
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	return s.discard(ctx, root, entry, name)
}

// leftovers lists the limbo directories of one scratch, or of all.
func (s *Store) leftovers(ctx context.Context, root int, name string) ([]string, error) {
	var out []string
	err := s.eachName(ctx, root, func(entry string) error {
		if of, ok := limboOwner(entry); ok && (name == "" || of == name) {
			out = append(out, entry)
		}
		return nil
	})
	return out, err
}

// checkOurs refuses a scratch that another agent marked. One without a mark is
// removed: its name was asked for, and no mark means that it is older than agentd.
func (s *Store) checkOurs(root int, name string) error {
	top, err := openBeneath(root, name, unix.O_PATH|unix.O_DIRECTORY)
	if isAbsent(err) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return explain("open scratch", s.Path(name), err)
	}
	defer closeFD(top)
	owner, marked, err := readMark(top)
	if err == nil && marked && owner != s.owner {
		return foreign(s.Path(name), owner)
	}
	return nil // a mark that cannot be read does not keep a scratch alive
}

// discard moves one entry of the root into a fresh limbo directory and empties
// that. The move is what makes the removal visible at once and as a whole.
func (s *Store) discard(ctx context.Context, root int, entry, name string) error {
	where := filepath.Join(s.root, entry)
	fd, err := openBeneath(root, entry, unix.O_PATH|unix.O_NOFOLLOW)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return explain("remove", where, err)
	}
	mounts, err := mountsBelow(fd)
	closeFD(fd)
	if err != nil {
		return fmt.Errorf("remove %q: look for mounts: %w", where, err)
	}
	if len(mounts) > 0 {
		return fmt.Errorf("remove %q: %w: %q is mounted inside; unmount it (umount), agentd does not cross mounts",
			where, apis.ErrConflict, mounts)
	}
	limbo, err := s.newLimbo(root, name)
	if err != nil {
		return explain("remove", where, err)
	}
	e := emptier{path: filepath.Join(s.root, limbo)}
	e.fd, err = openBeneath(root, limbo, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == nil {
		defer closeFD(e.fd)
		err = e.take(root, entry)
	}
	if err == nil {
		err = e.empty(ctx)
	}
	if errRmdir := unix.Unlinkat(root, limbo, unix.AT_REMOVEDIR); err == nil {
		err = errRmdir // otherwise it holds what could not be removed
	}
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return explain("remove", where, err)
	}
	return nil
}
