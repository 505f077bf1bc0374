// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

// invalid is a TerminalError for input that cannot be accepted.
func invalid(format string, args ...any) error {
	return apis.Terminal(apis.ReasonInvalid, fmt.Errorf("%w: %w", apis.ErrInvalid, fmt.Errorf(format, args...)))
}

// verdict is what a group of error numbers means here.
type verdict struct {
	class error
	hint  string
}

// judge returns the class and the way out.
func judge(err error) verdict {
	var no unix.Errno
	if !errors.As(err, &no) {
		return verdict{}
	}
	switch no { //nolint:exhaustive // every other number is transient and speaks for itself
	case unix.ENOSPC, unix.EDQUOT:
		return verdict{apis.ErrUnavailable, "free space or inodes there, or set container.scratch-root to a larger file system"}
	case unix.EROFS:
		return verdict{apis.ErrUnavailable, "remount it writable, or set container.scratch-root to another directory"}
	case unix.EACCES:
		return verdict{apis.ErrUnavailable, "let agentd search and write there, or run agentd as root"}
	case unix.EPERM:
		return verdict{apis.ErrUnavailable, "clear immutable and append-only flags (lsattr, chattr -ia), or run agentd as root"}
	case unix.EIO, unix.ESTALE, unix.ENODEV:
		return verdict{apis.ErrUnavailable, "check the disk (dmesg)"}
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM:
		return verdict{apis.ErrUnavailable, "raise the limit (LimitNOFILE) or free memory"}
	case unix.ENOSYS:
		return verdict{apis.ErrUnavailable, "agentd needs openat2: Linux 5.6 or newer, not hidden by a seccomp filter"}
	case unix.ELOOP:
		return verdict{apis.ErrConflict, "a symbolic link is in the way: remove it; none is followed below the scratch root"}
	case unix.ENOTDIR, unix.EISDIR, unix.EEXIST, unix.ENOTEMPTY:
		return verdict{apis.ErrConflict, "something of another type is in the way: remove it"}
	case unix.EXDEV, unix.EBUSY:
		return verdict{apis.ErrConflict, "a mount is in the way: unmount it; agentd crosses and unmounts only what it mounted"}
	}
	return verdict{}
}

// explain wraps err with what was being done to which path, its class and the
// way out. The path is quoted, since its names may be the kernel's.
func explain(doing, path string, err error) error {
	_, judged := apis.AsTerminal(err)
	switch v := judge(err); {
	case judged, errors.Is(err, apis.ErrUnavailable), errors.Is(err, apis.ErrConflict), v.class == nil:
		return fmt.Errorf("%s %q: %w", doing, path, err)
	default:
		return fmt.Errorf("%s %q: %w: %w; %s", doing, path, v.class, err, v.hint)
	}
}

func isAbsent(err error) bool { return errors.Is(err, unix.ENOENT) }

// isInTheWay tells that a name is taken by something of another type.
func isInTheWay(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EXDEV)
}

func isDenied(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }
