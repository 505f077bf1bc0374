// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Listen opens the admin socket with mode 0600. The socket file of a daemon
// that died is replaced; one that answers, and a file that is no socket, are
// errors. Nothing else than our own socket is ever removed.
func Listen(path string) (net.Listener, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("admin socket %s: %w; set agentd.admin-socket to a place that can be written", path, err)
	}
	// Two daemons that start at once must not both find the file stale.
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, fmt.Errorf("admin socket %s: %w", path, err)
	}
	defer unlock()
	if err := dropStale(path); err != nil {
		return nil, fmt.Errorf("admin socket %s: %w", path, err)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("admin socket %s: %w; set agentd.admin-socket to another path", path, err)
	}
	ln.SetUnlinkOnClose(false)
	// Who gets in before this is still asked who it is: see checkPeer.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = ln.Close()
		_ = os.Remove(path)
		return nil, fmt.Errorf("admin socket %s: %w", path, err)
	}
	st, err := os.Lstat(path)
	if err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("admin socket %s: %w", path, err)
	}
	return &listener{UnixListener: ln, path: path, made: st}, nil
}

// lockDir holds the lock of the socket's directory.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking its directory: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

// dropStale removes a socket file that nobody listens on.
func dropStale(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.Mode().Type() != fs.ModeSocket:
		return errors.New("something else than a socket has that name; remove it, or set agentd.admin-socket to another path")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		_ = conn.Close()
		return errors.New("another agentd answers there; stop that one first, or set agentd.admin-socket to another path")
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	// Busy, or not ours to ask: somebody is there.
	return fmt.Errorf("another process seems to have it: %w", err)
}

// listener removes its file when it is closed, unless another daemon has replaced it.
type listener struct {
	*net.UnixListener
	path string
	made fs.FileInfo
}

// Close stops listening and removes the socket file.
func (l *listener) Close() error {
	if st, err := os.Lstat(l.path); err == nil && os.SameFile(st, l.made) {
		_ = os.Remove(l.path)
	}
	return l.UnixListener.Close()
}

// errStranger refuses peers that are neither root nor the daemon's user.
var errStranger = errors.New("only root and the user of the daemon may use this socket")

// checkPeer asks the kernel who is at the other end. Connections of other
// kinds, which only tests make, have no such peer.
func checkPeer(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return fmt.Errorf("peer of the admin socket: %w", err)
	}
	return allowed(int(cred.Uid), os.Getuid())
}

func allowed(peer, own int) error {
	if peer == 0 || peer == own {
		return nil
	}
	return fmt.Errorf("user %d: %w", peer, errStranger)
}
