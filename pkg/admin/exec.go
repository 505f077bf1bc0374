// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

// ExecRequest is the body of POST /v1/exec/{ref}.
type ExecRequest struct {
	Cmd []string `json:"cmd"`
	// Stdin passes the client's input on.
	Stdin bool             `json:"stdin,omitempty"`
	TTY   bool             `json:"tty,omitempty"`
	Size  runtime.TermSize `json:"size,omitzero"`
	// Term is the client's kind of terminal ($TERM).
	Term string `json:"term,omitempty"`
	// Root runs it as root instead of as the kernel's user.
	Root bool `json:"root,omitempty"`
}

// exec answers POST /v1/exec/{ref}: the connection becomes a stream of frames
// once the command is about to run.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) error {
	if s.deps.Exec == nil {
		return fmt.Errorf("exec: %w: this node runs no commands", apis.ErrUnavailable)
	}
	if r.Header.Get("Upgrade") != execUpgrade {
		return fmt.Errorf("exec: %w: the header \"Upgrade: %s\" is needed", apis.ErrInvalid, execUpgrade)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxExec))
	if err != nil {
		return fmt.Errorf("exec: %w", err)
	}
	var req ExecRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return fmt.Errorf("exec: %w: %w", apis.ErrInvalid, err)
	}
	if len(req.Cmd) == 0 || req.Cmd[0] == "" {
		return fmt.Errorf("exec: %w: there is no command", apis.ErrInvalid)
	}
	id, spec, err := s.execTarget(r.PathValue("ref"), req)
	if err != nil {
		return err
	}
	conn, in, err := hijack(w)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	s.converse(r.Context(), conn, in, id, spec, req.Stdin)
	return errSent
}

// execTarget finds the running container of a kernel.
func (s *Server) execTarget(ref string, req ExecRequest) (string, runtime.ExecSpec, error) {
	k, err := s.deps.Declare.FindKernel(ref)
	if err != nil {
		return "", runtime.ExecSpec{}, err
	}
	c, ok := s.deps.Set.Tables.Containers.Reader().Get(k.Name)
	if !ok || c.Status.State != apis.ContainerRunning || c.Status.ID == "" {
		return "", runtime.ExecSpec{}, fmt.Errorf("kernel %q: %w: it is not running (%s)", ref, apis.ErrConflict, k.Status.Phase)
	}
	var imageEnv []string
	if img, ok := s.deps.Set.Tables.Images.Reader().Get(apis.ImageName(k.Spec.Image)); ok {
		imageEnv = img.Status.Env
	}
	return c.Status.ID, execFor(k.Spec, c.Spec, imageEnv, req), nil
}

// hijack takes the connection over and tells the client that frames follow.
func hijack(w http.ResponseWriter) (net.Conn, *bufio.Reader, error) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("exec: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	_ = conn.SetWriteDeadline(time.Now().Add(bodyTime))
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+execUpgrade+"\r\n\r\n")
	if err != nil {
		_ = conn.Close()
		return nil, nil, errors.Join(errSent, err)
	}
	return conn, buf.Reader, nil
}

// converse runs the command and passes its streams on until it ends or the
// client is gone.
func (s *Server) converse(ctx context.Context, conn net.Conn, in io.Reader, id string, spec runtime.ExecSpec, withStdin bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &frames{to: patient{conn}}
	streams := runtime.ExecStreams{Stdout: out.writer(frameStdout), Stderr: out.writer(frameStderr)}
	stdin, fill := io.Pipe()
	if withStdin {
		streams.Stdin = stdin
	}
	sizes := make(chan runtime.TermSize, 1)
	streams.Resize = sizes
	read := make(chan struct{})
	go func() {
		defer close(read)
		err := receive(in, fill, sizes)
		_ = fill.CloseWithError(err)
		cancel() // the client is gone
	}()
	code, err := s.deps.Exec.Exec(ctx, id, spec, streams)
	_ = stdin.Close() // whatever still comes is for nobody
	end := execEnd{Code: code}
	if err != nil {
		_, f := encodeFailure(err)
		end.Error = &f
	}
	_ = out.sendJSON(frameEnd, end)
	_ = conn.Close() // ends the reader
	<-read
}

// receive takes in the client's frames until it is gone. Input for a command
// that has ended is thrown away, so that the end of the client is still seen.
func receive(from io.Reader, stdin *io.PipeWriter, sizes chan runtime.TermSize) error {
	buf := make([]byte, maxFrame)
	for {
		kind, data, err := readFrame(from, buf)
		if err != nil {
			return err
		}
		switch kind {
		case frameStdin:
			_, _ = stdin.Write(data)
		case frameStdinEnd:
			_ = stdin.Close()
		case frameResize:
			size, err := decodeSize(data)
			if err != nil {
				return err
			}
			select { // only the latest size matters
			case <-sizes:
			default:
			}
			sizes <- size
		default:
			return fmt.Errorf("%w: type %d", errFrame, kind)
		}
	}
}

// patient gives each write its own deadline.
type patient struct{ conn net.Conn }

// Write writes p, unless the client does not read for a long time.
func (p patient) Write(b []byte) (int, error) {
	_ = p.conn.SetWriteDeadline(time.Now().Add(stallTime))
	return p.conn.Write(b)
}
