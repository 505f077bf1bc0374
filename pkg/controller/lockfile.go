// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockRetry is the distance between two tries to lock a file.
const lockRetry = 20 * time.Millisecond

// openLocked opens the file under its lock, exclusive or (read-only) shared.
// created tells that it did not exist; its directory entry is on the disk then.
func openLocked(path string, opt CheckpointOptions) (f *os.File, created bool, err error) {
	deadline := time.Now().Add(opt.LockTimeout)
	for {
		f, created, err = openOrCreate(path, opt.ReadOnly)
		if err != nil {
			return nil, false, err
		}
		if err = lock(f, opt.ReadOnly, deadline); err != nil {
			_ = f.Close()
			return nil, false, err
		}
		// Who had the lock before may have set the file aside and made another.
		same, err := isAt(f, path)
		if err != nil {
			_ = f.Close()
			return nil, false, err
		}
		if same {
			return f, created, nil
		}
		_ = f.Close()
	}
}

func openOrCreate(path string, readOnly bool) (f *os.File, created bool, err error) {
	// Anything but a file could block or take writes somewhere else.
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !readOnly:
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return openOrCreate(path, readOnly) // another process was faster
		}
		if err != nil {
			return nil, false, err
		}
		if err := syncDir(path); err != nil {
			_ = f.Close()
			return nil, false, err
		}
		return f, true, nil
	case err != nil:
		return nil, false, err
	case !st.Mode().IsRegular():
		return nil, false, fmt.Errorf("it is not a file but %s", st.Mode().Type())
	case readOnly:
		f, err = os.Open(path)
		return f, false, err
	}
	f, err = os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return openOrCreate(path, readOnly) // set aside in this moment
	}
	if err != nil {
		return nil, false, err
	}
	if st.Mode().Perm() != 0o600 { // it holds secrets
		if err := f.Chmod(0o600); err != nil {
			_ = f.Close()
			return nil, false, err
		}
	}
	return f, false, nil
}

func lock(f *os.File, shared bool, deadline time.Time) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock: %w", err)
		case !time.Now().Before(deadline):
			return ErrInUse
		default:
			<-time.After(lockRetry)
		}
	}
}

// isAt tells whether f is the file that the path names now.
func isAt(f *os.File, path string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(mine, there), nil
}

// setAside renames a file that cannot be used, so that a person can look at it.
func setAside(path string) (string, error) {
	base := path + ".damaged-" + time.Now().UTC().Format("20060102T150405Z")
	to := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
		to = fmt.Sprintf("%s-%d", base, n)
	}
	if err := os.Rename(path, to); err != nil {
		return "", err
	}
	return to, syncDir(path)
}

// syncDir makes the names in the file's directory durable.
func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}
