// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis/record"
)

const (
	// firstRetry and lastRetry bound the time between two looks for the socket; it grows by half each time.
	firstRetry = 5 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
	// maxUpdates is how many changes of status a runner may report before it is ready.
	maxUpdates = 1024
)

// WaitReady waits until the runner of the kernel says that it is ready, for as long as the context lives. It connects
// as soon as the socket appears and is then told, so waiting costs nothing. It does not wait on for a runner that is
// stopping or that breaks the protocol.
func WaitReady(ctx context.Context, runDir string) (Status, error) {
	signs := watchDir(runDir)
	defer signs.Close()
	var last error
	for pause := firstRetry; ; pause = min(pause*3/2, lastRetry) {
		status, err := waitOnce(ctx, runDir)
		if err == nil {
			return status, nil
		}
		if ctx.Err() != nil {
			return Status{}, notReady(runDir, ctx.Err(), errors.Join(last, err))
		}
		if !comesAgain(err) {
			return status, err
		}
		last = err
		if err := signs.Wait(ctx, pause); err != nil {
			return Status{}, notReady(runDir, err, last)
		}
	}
}

func notReady(runDir string, err, last error) error {
	return fmt.Errorf("runner in %s is not ready: %w (last: %w)", runDir, err, last)
}

// comesAgain reports whether an error is one that a runner which is just starting causes.
func comesAgain(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET) ||
		errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EAGAIN) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// ErrStopping means that the runner ends instead of becoming ready.
var ErrStopping = errors.New("runner is stopping")

// waitOnce connects and listens until the runner is ready.
func waitOnce(ctx context.Context, runDir string) (Status, error) {
	c, err := Dial(ctx, runDir)
	if err != nil {
		return Status{}, err
	}
	defer c.Close()
	var status Status
	updates := 0
	err = c.exchange(ctx, record.WatchRequest, nil, func(answer record.Record) (bool, error) {
		if updates++; updates > maxUpdates {
			return false, errors.New("it reports changes without end")
		}
		status = Status{}
		err := answer.Decode(&status)
		return status.Ready || status.Stage == record.StageStopping, err
	})
	if err == nil && !status.Ready {
		err = fmt.Errorf("%s: %w", runDir, ErrStopping)
	}
	return status, err
}

// signs tells of new entries in a directory, where the system has watches left; else only time passes.
type signs struct {
	events *os.File
}

// watchDir watches a directory that may have been replaced by its owner; only a directory itself is watched.
func watchDir(path string) signs {
	dir, err := openRef(unix.AT_FDCWD, path, unix.O_DIRECTORY)
	if err != nil {
		return signs{}
	}
	defer dir.Close()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return signs{}
	}
	_, err = unix.InotifyAddWatch(fd, fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), unix.IN_CREATE|unix.IN_MOVED_TO)
	if err != nil {
		_ = unix.Close(fd)
		return signs{}
	}
	return signs{events: os.NewFile(uintptr(fd), "inotify")}
}

// Close ends the watch.
func (s signs) Close() {
	if s.events != nil {
		_ = s.events.Close()
	}
}

// Wait returns nil when an entry appeared or the time is over, and the context's error when that ended.
func (s signs) Wait(ctx context.Context, pause time.Duration) error {
	woken, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	if s.events == nil {
		<-woken.Done()
		return ctx.Err()
	}
	// A flood of new entries must not make us look without a break.
	floor := time.NewTimer(firstRetry / 5)
	defer floor.Stop()
	_ = s.events.SetReadDeadline(time.Time{})
	stop := context.AfterFunc(woken, func() { _ = s.events.SetReadDeadline(time.Unix(1, 0)) })
	buf := make([]byte, 4096)
	_, _ = s.events.Read(buf)
	stop()
	select {
	case <-floor.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
