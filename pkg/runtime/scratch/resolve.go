// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// beneath is how every path below the scratch root is resolved.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openBeneath opens path below dir without following links or crossing mounts.
// With O_PATH it touches nothing: a device or a pipe is not opened, only found.
func openBeneath(dir int, path string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: beneath}
	for {
		fd, err := unix.Openat2(dir, path, &how)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// reopen opens for reading or listing what an O_PATH descriptor holds: the very
// same inode, whatever its name means by now.
func reopen(fd, flags int) (int, error) {
	return open(procPath(fd), flags)
}

func open(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// procPath names an open descriptor. It is the way to chmod and reopen what was
// opened with O_PATH on every supported Linux.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func stat(fd int) (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st, err
}

func isType(st unix.Stat_t, t uint32) bool { return st.Mode&unix.S_IFMT == t }

func closeFD(fd int) { _ = unix.Close(fd) }
