// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

var _ runtime.Execer = (*Engine)(nil)

const (
	execLookEvery = 20 * time.Millisecond
	execLookFor   = 5 * time.Second
)

// Exec runs a command in a running container until it ends and returns its
// exit code. When ctx ends first the streams are cut; the engine has no call
// to end the command itself.
func (e *Engine) Exec(ctx context.Context, id string, spec runtime.ExecSpec, streams runtime.ExecStreams) (int, error) {
	what := "run a command in container " + short(id)
	if len(spec.Cmd) == 0 {
		return 0, apis.Terminalf(apis.ReasonInvalid, "%s: there is no command", what)
	}
	size := client.ConsoleSize{}
	if spec.TTY {
		size = client.ConsoleSize{Height: spec.Size.Rows, Width: spec.Size.Cols}
	}
	var exec string
	err := e.call(ctx, e.timeout, what, func(ctx context.Context, conn *connection) error {
		out, err := conn.ExecCreate(ctx, id, client.ExecCreateOptions{
			Cmd: spec.Cmd, Env: spec.Env, User: spec.User, WorkingDir: spec.WorkingDir, TTY: spec.TTY, ConsoleSize: size,
			AttachStdin: streams.Stdin != nil, AttachStdout: true, AttachStderr: !spec.TTY,
		})
		exec = out.ID
		return err
	})
	if err != nil {
		return 0, err
	}
	var used *connection
	var attached client.ExecAttachResult
	end, err := e.stream(ctx, what, func(ctx context.Context, conn *connection) (err error) {
		used = conn
		attached, err = conn.ExecAttach(ctx, exec, client.ExecAttachOptions{TTY: spec.TTY, ConsoleSize: size})
		return err
	})
	if attached.Conn != nil {
		defer attached.Close()
	}
	if err != nil {
		return 0, err
	}
	defer end()
	if err := e.converse(ctx, exec, spec, streams, attached); err != nil {
		return 0, e.classify(ctx, used, what, err)
	}
	return e.exitCode(ctx, what, exec)
}

// converse copies the streams until the command closed its output.
func (e *Engine) converse(ctx context.Context, exec string, spec runtime.ExecSpec, streams runtime.ExecStreams, attached client.ExecAttachResult) error {
	// The connection is the client's no more: its end must be tied to ctx here.
	stop := context.AfterFunc(ctx, attached.Close)
	defer stop()

	resizing, stopResizing := context.WithCancel(ctx)
	resized := make(chan struct{})
	go func() {
		defer close(resized)
		if spec.TTY {
			e.firstSize(resizing, exec, spec.Size)
		}
		e.passSizes(resizing, exec, streams.Resize)
	}()
	defer func() { stopResizing(); <-resized }()

	if streams.Stdin != nil {
		go func() {
			_, _ = io.Copy(attached.Conn, streams.Stdin)
			_ = attached.CloseWrite()
		}()
	}
	stdout, stderr := streams.Stdout, streams.Stderr
	if stdout == nil {
		stdout = io.Discard
	}
	if stderr == nil {
		stderr = io.Discard
	}
	var err error
	if spec.TTY {
		_, err = io.Copy(stdout, attached.Reader)
	} else {
		_, err = stdcopy.StdCopy(stdout, stderr, attached.Reader)
	}
	if err != nil {
		return fmt.Errorf("copying its output: %w", err)
	}
	return nil
}

// firstSize sets the size again that the command was created with: engines
// before API 1.42 ignore that one, and take none until the command runs.
func (e *Engine) firstSize(ctx context.Context, exec string, size runtime.TermSize) {
	if size == (runtime.TermSize{}) {
		return
	}
	tick := time.NewTicker(execLookEvery)
	defer tick.Stop()
	_ = e.call(ctx, execLookFor, "resize", func(ctx context.Context, conn *connection) error {
		for {
			_, err := conn.ExecResize(ctx, exec, client.ExecResizeOptions{Height: size.Rows, Width: size.Cols})
			if err == nil {
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return err
			}
		}
	})
}

// passSizes passes on the terminal's sizes. One that is lost does no harm: the
// next one comes with the next change.
func (e *Engine) passSizes(ctx context.Context, exec string, sizes <-chan runtime.TermSize) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			_ = e.call(ctx, e.timeout, "resize", func(ctx context.Context, conn *connection) error {
				_, err := conn.ExecResize(ctx, exec, client.ExecResizeOptions{Height: size.Rows, Width: size.Cols})
				return err
			})
		}
	}
}

// exitCode asks until the engine says that the command ended: it closes the
// streams a moment before.
func (e *Engine) exitCode(ctx context.Context, what, exec string) (int, error) {
	tick := time.NewTicker(execLookEvery)
	defer tick.Stop()
	var code int
	err := e.call(ctx, execLookFor, what, func(ctx context.Context, conn *connection) error {
		for {
			in, err := conn.ExecInspect(ctx, exec, client.ExecInspectOptions{})
			if err != nil {
				return err
			}
			if code = in.ExitCode; !in.Running {
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return errors.Join(errors.New("it closed its output and still runs"), ctx.Err())
			}
		}
	})
	return code, err
}
