// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller/intake"
	"agentd/pkg/runtime"
)

// maxTail bounds the lines that a client may ask for; more is all of them.
const maxTail = 1_000_000

// logs answers GET /v1/logs/{ref}: the log of a running container as it is
// written, or what was kept of it after its kernel ended.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	opt := runtime.LogOptions{Follow: q.Get("follow") == "true"}
	if t := q.Get("tail"); t != "" {
		n, err := strconv.Atoi(t)
		if err != nil || n < 1 {
			return fmt.Errorf("tail %q: %w: a number of lines is needed", t, apis.ErrInvalid)
		}
		if n <= maxTail {
			opt.Tail = n
		}
	}
	ref := r.PathValue("ref")
	if err := s.waitContainer(r.Context(), ref, opt.Follow); err != nil {
		return err
	}
	from, err := s.openLog(r.Context(), ref, opt)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	// A read that waits for the container's next line must end with the client.
	stop := context.AfterFunc(r.Context(), func() { _ = from.Close() })
	defer stop()
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	if err := c.Flush(); err != nil {
		return errors.Join(errSent, err)
	}
	if err := copyStream(w, c, from); err != nil && r.Context().Err() == nil {
		s.deps.Log.V(1).Info("a log stream ended early", "ref", ref, "why", err.Error())
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	return nil
}

// copyStream passes on what comes, at once.
func copyStream(w io.Writer, c *http.ResponseController, from io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			_ = c.SetWriteDeadline(time.Now().Add(stallTime))
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := c.Flush(); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// waitContainer lets a follower wait for a kernel that is on its way.
func (s *Server) waitContainer(ctx context.Context, ref string, follow bool) error {
	k, err := s.deps.Declare.FindKernel(ref)
	if err != nil || !follow {
		return nil //nolint:nilerr // what was kept may be asked for
	}
	return s.deps.Set.Tables.Kernels.Reader().Wait(ctx, k.Name, func(k *apis.Kernel) bool {
		return k == nil || k.Deleting || !k.Status.Phase.Before(apis.PhaseRunning)
	})
}

// openLog finds the log of a kernel that runs, or of one that has ended.
func (s *Server) openLog(ctx context.Context, ref string, opt runtime.LogOptions) (io.ReadCloser, error) {
	var ids []string
	k, findErr := s.deps.Declare.FindKernel(ref)
	switch {
	case findErr == nil:
		ids = []string{k.Name}
		c, ok := s.deps.Set.Tables.Containers.Reader().Get(k.Name)
		if ok && c.Status.ID != "" && !c.Status.LogsKept && c.Status.State != apis.ContainerGone {
			from, err := s.deps.Node.Containers.Logs(ctx, c.Status.ID, opt)
			if !errors.Is(err, apis.ErrNotFound) {
				return from, err
			}
		}
	case errors.Is(findErr, apis.ErrConflict):
		return nil, findErr
	default:
		ids = endedIDs(ref)
	}
	for _, id := range ids {
		if apis.ValidateName("kernel ID", id) != nil {
			continue
		}
		from, err := s.deps.Node.Logs.Open(id)
		if errors.Is(err, apis.ErrNotFound) {
			continue
		}
		if err != nil || opt.Tail == 0 {
			return from, err
		}
		return tail(from, opt.Tail)
	}
	if findErr != nil {
		return nil, fmt.Errorf("%w, and no log of it was kept", findErr)
	}
	return nil, fmt.Errorf("log of kernel %q: %w: it has no container yet, and wrote nothing", ref, apis.ErrNotFound)
}

// endedIDs are the kernels that a reference may have meant before they ended:
// IDs of sessions from files follow from their names.
func endedIDs(ref string) []string {
	session, host, ok := strings.Cut(ref, "/")
	if !ok {
		return []string{ref, intake.KernelID(intake.SessionID(ref), "main1"), intake.KernelID(ref, "main1")}
	}
	return []string{intake.KernelID(intake.SessionID(session), host), intake.KernelID(session, host)}
}

// tail returns the last lines of a log that has ended.
func tail(from io.ReadCloser, n int) (io.ReadCloser, error) {
	defer func() { _ = from.Close() }()
	var kept []string
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			if kept = append(kept, line); len(kept) > 2*n {
				kept = append([]string(nil), kept[len(kept)-n:]...)
			}
		}
		if errors.Is(err, io.EOF) {
			return io.NopCloser(strings.NewReader(strings.Join(kept[max(0, len(kept)-n):], ""))), nil
		}
		if err != nil {
			return nil, err
		}
	}
}
