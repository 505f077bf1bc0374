// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/pkg/sftp"
)

// side is one end of a copy: this machine's files or another's.
type side interface {
	Stat(name string) (fs.FileInfo, error)
	ReadDir(name string) ([]fs.FileInfo, error)
	Open(name string) (io.ReadCloser, error)
	// Create makes or empties a file. A new file gets the permissions as far as the other end's umask lets them.
	Create(name string, perm fs.FileMode) (io.WriteCloser, error)
	Mkdir(name string, perm fs.FileMode) error
	Chmod(name string, perm fs.FileMode) error
	Chtimes(name string, accessed, modified time.Time) error
	Glob(pattern string) ([]string, error)
}

// local is this machine.
type local struct{}

func (local) Stat(name string) (fs.FileInfo, error)     { return os.Stat(name) }
func (local) Open(name string) (io.ReadCloser, error)   { return os.Open(name) }
func (local) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }
func (local) Chmod(name string, perm fs.FileMode) error { return os.Chmod(name, perm) }
func (local) Chtimes(name string, a, m time.Time) error { return os.Chtimes(name, a, m) }
func (local) Glob(pattern string) ([]string, error)     { return filepath.Glob(pattern) }
func (local) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
}

func (local) ReadDir(name string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// remote is another machine.
type remote struct{ client *sftp.Client }

func (r remote) Stat(name string) (fs.FileInfo, error)      { return r.client.Stat(name) }
func (r remote) ReadDir(name string) ([]fs.FileInfo, error) { return r.client.ReadDir(name) }
func (r remote) Chmod(name string, perm fs.FileMode) error  { return r.client.Chmod(name, perm) }
func (r remote) Chtimes(name string, a, m time.Time) error  { return r.client.Chtimes(name, a, m) }
func (r remote) Glob(pattern string) ([]string, error)      { return r.client.Glob(pattern) }
func (r remote) Open(name string) (io.ReadCloser, error)    { return r.client.Open(name) }
func (r remote) Create(name string, perm fs.FileMode) (io.WriteCloser, error) {
	_, err := r.client.Lstat(name)
	fresh := errors.Is(err, fs.ErrNotExist)
	file, err := r.client.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	// The library cannot give permissions when it opens; what the usual umask leaves of ours is set right after.
	if perm &^= 0o022; fresh && perm != 0o644 {
		if err := file.Chmod(perm); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	return file, nil
}

func (r remote) Mkdir(name string, perm fs.FileMode) error {
	if err := r.client.Mkdir(name); err != nil {
		return err
	}
	if perm &^= 0o022; perm != 0o755 {
		return r.client.Chmod(name, perm)
	}
	return nil
}

// expand returns the files that a name stands for: itself if it exists, else what it matches as a pattern.
func expand(on side, name string) ([]string, error) {
	if !strings.ContainsAny(name, `*?[`) {
		return []string{name}, nil
	}
	if _, err := on.Stat(name); err == nil {
		return []string{name}, nil
	}
	names, err := on.Glob(name)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fs.ErrNotExist
	}
	return names, nil
}

// isDir reports whether a name is a directory.
func isDir(on side, name string) bool {
	info, err := on.Stat(name)
	return err == nil && info.IsDir()
}

// below is where a source named so goes in a directory; "." and ".." go into the directory itself.
func below(dir, source string) string {
	base := path.Base(source)
	if base == "." || base == ".." || base == "/" {
		return dir
	}
	return path.Join(dir, base)
}
