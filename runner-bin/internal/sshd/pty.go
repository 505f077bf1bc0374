// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal and returns our end and the program's. Ours is non-blocking, so that reads have
// deadlines and end when it is closed.
func openTerminal(size unix.Winsize) (ours, theirs *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size)
	return os.NewFile(uintptr(fd), "/dev/ptmx"), theirs, nil
}

// resizeTerminal tells a program that its terminal has another size.
func resizeTerminal(tty *os.File, size unix.Winsize) error {
	raw, err := tty.SyscallConn()
	if err != nil {
		return err
	}
	result := raw.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &size) })
	if result != nil {
		return result
	}
	return err
}
