// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

// Logs streams stdout and stderr as they were written. Kernels have a
// terminal, so both are one stream; the frames of a container without one are
// taken off. A stream that is not followed has the call timeout for all of it.
func (e *Engine) Logs(ctx context.Context, id string, opt runtime.LogOptions) (io.ReadCloser, error) {
	what := "logs of container " + short(id)
	framed := false
	err := e.call(ctx, e.timeout, what, func(ctx context.Context, conn *connection) error {
		in, err := conn.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		framed = err == nil && in.Container.Config != nil && !in.Container.Config.Tty
		return err
	})
	if err != nil {
		return nil, err
	}
	ask := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: opt.Follow}
	if opt.Tail > 0 {
		ask.Tail = strconv.Itoa(opt.Tail)
	}
	var body io.ReadCloser
	end, err := e.stream(ctx, what, func(ctx context.Context, conn *connection) error {
		body, err = conn.ContainerLogs(ctx, id, ask)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &logStream{what: what, source: body, body: body, end: end}
	if !opt.Follow {
		out.limit = time.AfterFunc(e.timeout, func() {
			out.late.Store(true)
			end()
		})
	}
	if framed {
		out.unframe()
	}
	return out, nil
}

// logStream ends the exchange when it is closed.
type logStream struct {
	what   string
	source io.Reader
	body   io.Closer
	end    func()
	limit  *time.Timer
	late   atomic.Bool
	pipe   *io.PipeReader
	work   sync.WaitGroup
}

// Read reads the log. One that took too long is the engine's fault and says so.
func (s *logStream) Read(p []byte) (int, error) {
	n, err := s.source.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && s.late.Load() {
		err = classed{fmt.Errorf("%s: not complete in time: %w", s.what, err), apis.ErrUnavailable}
	}
	return n, err
}

// unframe takes the engine's frames off on the way.
func (s *logStream) unframe() {
	framed := s.source
	r, w := io.Pipe()
	s.source, s.pipe = r, r
	s.work.Go(func() {
		_, err := stdcopy.StdCopy(w, w, framed)
		w.CloseWithError(err)
	})
}

// Close ends the stream and waits for whoever works on it.
func (s *logStream) Close() error {
	if s.limit != nil {
		s.limit.Stop()
	}
	s.end()
	if s.pipe != nil {
		_ = s.pipe.Close()
	}
	err := s.body.Close()
	s.work.Wait()
	return err
}
