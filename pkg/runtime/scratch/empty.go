// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// emptier removes trees of any depth and width with two open directories and
// constant memory: a directory that is not empty is moved up into the emptier's
// own directory, under the next number, and gets its turn later. A move never
// follows a link, and the system refuses to move or remove a mount.
type emptier struct {
	fd   int
	path string
	// taken is the number of trees moved in so far; their names are 0 to taken-1.
	taken int
}

// take moves an entry of another directory in.
func (e *emptier) take(from int, name string) error {
	to := strconv.Itoa(e.taken)
	err := unix.Renameat(from, name, e.fd, to)
	if isDenied(err) {
		thaw(from, name)
		err = unix.Renameat(from, name, e.fd, to)
	}
	if err == nil {
		e.taken++
	}
	return err
}

// empty removes everything that was taken, and what it contained.
func (e *emptier) empty(ctx context.Context) error {
	for n := 0; n < e.taken; n++ {
		if err := e.removeTree(ctx, strconv.Itoa(n)); err != nil {
			return err
		}
	}
	return nil
}

func (e *emptier) removeTree(ctx context.Context, name string) error {
	gone, err := removeEntry(e.fd, name)
	if err != nil || gone {
		return e.explain(name, "", err)
	}
	fd, err := openBeneath(e.fd, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if isDenied(err) {
		thaw(e.fd, name)
		fd, err = openBeneath(e.fd, name, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	if err != nil {
		return e.explain(name, "", err)
	}
	dir := os.NewFile(uintptr(fd), filepath.Join(e.path, name))
	defer func() { _ = dir.Close() }()
	// More than one round is needed when the file system skips names while
	// others are removed, or when somebody still adds some.
	for {
		seen, err := e.removeContent(ctx, dir, name)
		if err != nil {
			return err
		}
		gone, err := removeEntry(e.fd, name)
		if err != nil || gone {
			return e.explain(name, "", err)
		}
		if seen == 0 {
			return e.explain(name, "", unix.ENOTEMPTY)
		}
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return e.explain(name, "", err)
		}
	}
}

// removeContent removes or takes every entry once and returns their number.
func (e *emptier) removeContent(ctx context.Context, dir *os.File, name string) (seen int, err error) {
	fd := int(dir.Fd())
	for {
		entries, err := dir.Readdirnames(512)
		for _, entry := range entries {
			if err := ctx.Err(); err != nil {
				return seen, fmt.Errorf("%w; the rest is removed by the next call", err)
			}
			seen++
			gone, err := removeEntry(fd, entry)
			if err == nil && !gone {
				err = e.take(fd, entry)
			}
			if err != nil && !isAbsent(err) {
				return seen, e.explain(name, entry, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return seen, nil
		}
		if err != nil {
			return seen, e.explain(name, "", err)
		}
	}
}

func (e *emptier) explain(name, entry string, err error) error {
	if err == nil {
		return nil
	}
	return explain("remove", filepath.Join(e.path, name, entry), err)
}

// removeEntry removes a file or an empty directory; gone is false for a
// directory that is not empty. Nothing is opened and no link followed.
func removeEntry(dir int, name string) (gone bool, err error) {
	gone, err = unlink(dir, name)
	if isDenied(err) {
		thawDir(dir)
		refreeze := thaw(dir, name)
		gone, err = unlink(dir, name)
		refreeze()
	}
	return gone, err
}

func unlink(dir int, name string) (gone bool, err error) {
	// ENOTDIR: it was swapped between the two calls.
	for range 3 {
		if err = unix.Unlinkat(dir, name, 0); errors.Is(err, unix.EISDIR) {
			err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
		if !errors.Is(err, unix.ENOTDIR) {
			break
		}
	}
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	if isAbsent(err) {
		err = nil
	}
	return err == nil, err
}
