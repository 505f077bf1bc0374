// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis/record"
)

// ErrNotSocket means that something else than a socket lies where the runner's socket belongs.
var ErrNotSocket = errors.New("not a socket")

// connect reaches the socket in a directory that the container's user owns. The entry is opened as a mere reference
// without following a link, looked at, and connected to through that reference: whatever the user puts in its place in
// the meantime is never touched, and the 108 bytes of a socket address are enough for any path.
func connect(ctx context.Context, runDir string) (net.Conn, error) {
	dir, err := openRef(unix.AT_FDCWD, runDir, unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("run directory %s: %w", runDir, err)
	}
	defer dir.Close()
	entry, err := openRef(int(dir.Fd()), record.SocketName, 0)
	if err != nil {
		return nil, fmt.Errorf("runner socket in %s: %w", runDir, err)
	}
	defer entry.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(entry.Fd()), &stat); err != nil {
		return nil, fmt.Errorf("runner socket in %s: %w", runDir, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("runner socket in %s: %w (mode %#o)", runDir, ErrNotSocket, stat.Mode)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", entry.Fd()))
	if err != nil {
		return nil, fmt.Errorf("runner socket in %s: %w", runDir, err)
	}
	return conn, nil
}

// openRef opens a reference to a directory entry itself, never to what a link points to.
func openRef(dir int, name string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, err
		}
	}
}
