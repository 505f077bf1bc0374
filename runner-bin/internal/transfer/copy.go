// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/pkg/sftp"
)

// maxDepth ends the walk through links that lead back up.
const maxDepth = 128

// copier copies files and directories from one side to another.
type copier struct {
	from, to  side
	recursive bool
	// preserve keeps permissions and times exactly.
	preserve bool
	// fail is told about each file that could not be copied; the rest goes on.
	fail func(name string, err error)
}

// copy copies one file, or a directory with everything in it.
func (c *copier) copy(source, target string) { c.walk(source, target, 0) }

func (c *copier) walk(source, target string, depth int) {
	info, err := c.from.Stat(source)
	switch {
	case err != nil:
		c.fail(source, err)
	case info.IsDir() && !c.recursive:
		c.fail(source, errors.New("is a directory (use -r)"))
	case info.IsDir() && depth > maxDepth:
		c.fail(source, errors.New("too many levels of directories"))
	case info.IsDir():
		c.dir(source, target, info, depth)
	case !info.Mode().IsRegular():
		c.fail(source, errors.New("not a regular file"))
	default:
		if err := c.file(source, target, info); err != nil {
			c.fail(source, err)
		}
	}
}

func (c *copier) file(source, target string, info fs.FileInfo) error {
	in, err := c.from.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.to.Create(target, info.Mode().Perm())
	if err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	return c.keep(target, info)
}

func (c *copier) dir(source, target string, info fs.FileInfo, depth int) {
	if !isDir(c.to, target) {
		// The owner must be able to fill it; its own permissions come last.
		if err := c.to.Mkdir(target, info.Mode().Perm()|0o700); err != nil {
			c.fail(target, err)
			return
		}
	}
	entries, err := c.from.ReadDir(source)
	if err != nil {
		c.fail(source, err)
		return
	}
	for _, entry := range entries {
		name := entry.Name()
		if name == "." || name == ".." || name == "" || strings.Contains(name, "/") {
			c.fail(source, fmt.Errorf("the other side names a file %q", name))
			continue
		}
		c.walk(path.Join(source, name), path.Join(target, name), depth+1)
	}
	if err := c.keep(target, info); err != nil {
		c.fail(target, err)
	}
}

// keep gives the copy the permissions and times of the original, if asked to.
func (c *copier) keep(target string, info fs.FileInfo) error {
	if !c.preserve {
		return nil
	}
	accessed := info.ModTime()
	if stat, ok := info.Sys().(*sftp.FileStat); ok {
		accessed = time.Unix(int64(stat.Atime), 0)
	}
	return errors.Join(c.to.Chmod(target, info.Mode().Perm()), c.to.Chtimes(target, accessed, info.ModTime()))
}
