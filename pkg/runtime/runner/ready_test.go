// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentd/pkg/apis/record"
)

// waitResult is what WaitReady returned.
type waitResult struct {
	status Status
	err    error
}

func waitInBackground(ctx context.Context, dir string) <-chan waitResult {
	results := make(chan waitResult, 1)
	go func() {
		status, err := WaitReady(ctx, dir)
		results <- waitResult{status, err}
	}()
	return results
}

// TestWaitReady starts waiting before there is a socket and is told about every step.
func TestWaitReady(t *testing.T) {
	dir := t.TempDir()
	results := waitInBackground(short(t, 20*time.Second), dir)
	serve(t, dir, func(conn net.Conn) {
		s := newSpeaker(conn)
		if s.answer(hello()) {
			s.answer(Status{Stage: record.StageSetup}, Status{Stage: record.StageBootstrap},
				Status{Ready: true, Stage: record.StageRunning})
		}
		drain(conn)
	})
	if r := <-results; r.err != nil || !r.status.Ready {
		t.Errorf("%+v", r)
	}
}

// TestWaitReadyRetries meets a stale socket, then a runner that goes away, then one that becomes ready.
func TestWaitReadyRetries(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, record.SocketName)
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	results := waitInBackground(short(t, 20*time.Second), dir)

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	tries := 0
	serve(t, dir, func(conn net.Conn) {
		if tries++; tries < 3 {
			return
		}
		s := newSpeaker(conn)
		if s.answer(hello()) {
			s.answer(Status{Ready: true})
		}
		drain(conn)
	})
	if r := <-results; r.err != nil || !r.status.Ready {
		t.Errorf("%+v", r)
	}
}

func TestWaitReadyGivesUp(t *testing.T) {
	t.Run("no socket", func(t *testing.T) {
		if _, err := WaitReady(short(t, 50*time.Millisecond), t.TempDir()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("no directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "missing")
		if _, err := WaitReady(short(t, 50*time.Millisecond), dir); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("never ready", func(t *testing.T) {
		dir := t.TempDir()
		serve(t, dir, func(conn net.Conn) {
			s := newSpeaker(conn)
			s.answer(hello())
			s.answer(Status{Stage: record.StageBootstrap})
			drain(conn)
		})
		if _, err := WaitReady(short(t, 100*time.Millisecond), dir); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("stopping", func(t *testing.T) {
		dir := t.TempDir()
		serve(t, dir, func(conn net.Conn) {
			s := newSpeaker(conn)
			s.answer(hello())
			s.answer(Status{Stage: record.StageStopping})
			drain(conn)
		})
		if _, err := WaitReady(short(t, 20*time.Second), dir); !errors.Is(err, ErrStopping) {
			t.Errorf("error %v, want ErrStopping", err)
		}
	})
	t.Run("hostile", func(t *testing.T) {
		dir := t.TempDir()
		serve(t, dir, func(conn net.Conn) {
			s := newSpeaker(conn)
			s.answer(hello())
			endless := make([]any, 2*maxUpdates)
			for i := range endless {
				endless[i] = Status{Stage: record.StageSetup}
			}
			s.answer(endless...)
		})
		if _, err := WaitReady(short(t, 20*time.Second), dir); !errors.Is(err, ErrProtocol) {
			t.Errorf("error %v, want ErrProtocol", err)
		}
	})
	t.Run("link", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Symlink("/dev/null", filepath.Join(dir, record.SocketName)); err != nil {
			t.Fatal(err)
		}
		if _, err := WaitReady(short(t, 20*time.Second), dir); !errors.Is(err, ErrNotSocket) {
			t.Errorf("error %v, want ErrNotSocket", err)
		}
	})
}

// TestWithoutInotify waits by looking again, where the system has no watches left.
func TestWithoutInotify(t *testing.T) {
	var none signs
	if err := none.Wait(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := none.Wait(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
