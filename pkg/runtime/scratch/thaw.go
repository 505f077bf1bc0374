// SPDX-License-Identifier: Apache-2.0

package scratch

import "golang.org/x/sys/unix"

// frozen are the inode flags that forbid removal even to root (chattr +i, +a).
// The numbers are FS_IMMUTABLE_FL and FS_APPEND_FL of linux/fs.h.
const frozen uint32 = 0x10 | 0x20

// thaw makes an entry removable: it clears the flags that forbid it and lets
// its owner into a directory. What cannot be done shows when the removal is
// tried again. The returned function gives a file its flags back if it lives on
// under another name.
func thaw(dir int, name string) (refreeze func()) {
	nothing := func() {}
	fd, err := openBeneath(dir, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return nothing
	}
	defer closeFD(fd)
	st, err := stat(fd)
	if err != nil {
		return nothing
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if in, err := reopen(fd, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
			clearFlags(in)
			closeFD(in)
		}
		openUp(fd, st)
	case unix.S_IFREG:
		in, err := reopenFile(fd)
		if err != nil {
			return nothing
		}
		flags, cleared := clearFlags(in)
		if !cleared || st.Nlink == 1 {
			closeFD(in)
			return nothing
		}
		return func() {
			_ = unix.IoctlSetPointerInt(in, unix.FS_IOC_SETFLAGS, int(flags))
			closeFD(in)
		}
	}
	return nothing
}

// thawDir is thaw for a directory that is open for reading.
func thawDir(fd int) {
	clearFlags(fd)
	if st, err := stat(fd); err == nil {
		openUp(fd, st)
	}
}

// openUp lets the owner list and change a directory; root needs no leave.
func openUp(fd int, st unix.Stat_t) {
	if st.Mode&0o700 != 0o700 {
		_ = unix.Chmod(procPath(fd), st.Mode&0o7777|0o700)
	}
}

func clearFlags(fd int) (old uint32, cleared bool) {
	old, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil || old&frozen == 0 {
		return old, false
	}
	return old, unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(old&^frozen)) == nil
}
