// SPDX-License-Identifier: Apache-2.0

package accounts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Apply edits passwd, group and shadow in the directory (normally /etc) and returns the user's name. The error joins
// everything that could not be read or written; what could be done has been done, and the numbers can be used without
// names.
func Apply(dir string, want Want) (user string, remarks []string, err error) {
	have, err := read(dir)
	if err != nil {
		return fallbackName(want), nil, err
	}
	next, user, remarks := Plan(have, want)
	if next == have {
		return user, remarks, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fallbackName(want), remarks, fmt.Errorf("create %s: %w", dir, err)
	}
	// Groups first: whoever looks in between sees a group without members rather than a user without group.
	err = errors.Join(
		replace(filepath.Join(dir, "group"), have.Group, next.Group, 0o644),
		replace(filepath.Join(dir, "passwd"), have.Passwd, next.Passwd, 0o644),
		replace(filepath.Join(dir, "shadow"), have.Shadow, next.Shadow, 0o600),
	)
	return user, remarks, err
}

func fallbackName(want Want) string {
	if want.UID == 0 {
		return "root"
	}
	return Name
}

func read(dir string) (Files, error) {
	var files Files
	for name, text := range map[string]*string{"passwd": &files.Passwd, "group": &files.Group, "shadow": &files.Shadow} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Files{}, fmt.Errorf("read the image's %s file: %w", name, err)
		}
		*text = string(data)
	}
	return files, nil
}

// replace writes the file beside the old one and renames it, keeping mode and owner. A file that is a mount of its own
// cannot be renamed over and is written in place.
func replace(path, have, want string, mode fs.FileMode) error {
	if have == want {
		return nil
	}
	uid, gid := 0, 0
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
		if sys, ok := info.Sys().(*syscall.Stat_t); ok {
			uid, gid = int(sys.Uid), int(sys.Gid)
		}
	}
	temp := path + ".bai-runner"
	err := func() error {
		_ = os.Remove(temp) // left by an earlier start that was cut short
		if err := os.WriteFile(temp, []byte(want), mode); err != nil {
			return err
		}
		if err := errors.Join(os.Chmod(temp, mode), os.Chown(temp, uid, gid)); err != nil {
			return err
		}
		return os.Rename(temp, path)
	}()
	if err == nil {
		return nil
	}
	_ = os.Remove(temp)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("write %s: %w", path, err) // writing in place would only lose the old text
	}
	if err := os.WriteFile(path, []byte(want), mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
