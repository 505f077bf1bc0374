// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller/intake"
)

const (
	defaultWait = 5 * time.Minute
	// byOperator is the message beside the reason of a deletion by the command line.
	byOperator = "deleted with agentd delete"
)

// waitOptions reads ?wait= and ?timeout=.
func waitOptions(r *http.Request) (wait bool, timeout time.Duration, err error) {
	q := r.URL.Query()
	wait, timeout = q.Get("wait") == "true", defaultWait
	if t := q.Get("timeout"); t != "" {
		if timeout, err = time.ParseDuration(t); err != nil || timeout <= 0 {
			return false, 0, fmt.Errorf("timeout %q: %w: a time such as 5m is needed", t, apis.ErrInvalid)
		}
	}
	return wait, timeout, nil
}

// readFile reads and parses the session file in the request's body.
func readFile(r *http.Request) ([]intake.Session, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the session file: %w", err)
	}
	return intake.Parse(body, cmp.Or(r.URL.Query().Get("file"), "session file"))
}

// createSessions answers POST /v1/sessions: everything is checked before
// anything is stored.
func (s *Server) createSessions(w http.ResponseWriter, r *http.Request) error {
	begin := time.Now()
	wait, timeout, err := waitOptions(r)
	if err != nil {
		return err
	}
	sessions, err := readFile(r)
	if err != nil {
		return err
	}
	if s.deps.Check != nil {
		var errs []error
		for _, x := range sessions {
			if err := s.deps.Check(x); err != nil {
				if !errors.Is(err, apis.ErrInvalid) {
					err = fmt.Errorf("%w: %w", apis.ErrInvalid, err)
				}
				errs = append(errs, fmt.Errorf("session %s: %w", x.Spec.Title, err))
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	if err := s.deps.Declare.CreateAll(sessions); err != nil {
		return err
	}
	t := s.newTeller(w, begin, sessionsOf(sessions))
	defer t.stop()
	for _, x := range sessions {
		if err := t.out.send(t.line(Progress{Type: ProgressAccepted, Session: x.Spec.Title, SessionID: x.ID})); err != nil {
			return err
		}
	}
	if !wait {
		return t.result(nil)
	}
	return t.run(r.Context(), timeout, func(ctx context.Context, k toldKernel) Progress {
		st, err := s.deps.Declare.WaitReady(ctx, k.id)
		if err == nil {
			return Progress{OK: true, Phase: st.Phase}
		}
		var failed *intake.FailedError
		if !errors.As(err, &failed) {
			return Progress{Reason: "timeout", Message: err.Error()}
		}
		p := Progress{Phase: apis.PhaseTerminated, Reason: failed.Reason, Message: failed.Message}
		if end, ok := s.lastEnd(k.id); ok {
			p.ExitCode = end.ExitCode
			// What ran to its good end before anybody saw it ready has done what was wanted.
			p.OK = end.Reason == apis.ReasonSelfTerminated && end.ExitCode != nil && *end.ExitCode == 0
		}
		return p
	})
}

// deleteSessions answers DELETE /v1/sessions: ?name=, or the sessions of the
// session file in the body. Sessions of a file that are not there are success;
// a name that nothing has is an error.
func (s *Server) deleteSessions(w http.ResponseWriter, r *http.Request) error {
	begin := time.Now()
	wait, timeout, err := waitOptions(r)
	if err != nil {
		return err
	}
	var told []toldSession
	if name := r.URL.Query().Get("name"); name != "" {
		x, err := s.deps.Declare.FindSession(name)
		if err != nil {
			return err
		}
		told = append(told, s.storedSession(x))
	} else {
		sessions, err := readFile(r)
		if err != nil {
			return err
		}
		told = s.storedSessions(sessions)
	}
	t := s.newTeller(w, begin, told)
	defer t.stop()
	for _, x := range told {
		p := Progress{Type: ProgressAccepted, Session: x.title, SessionID: x.id}
		err := s.deps.Declare.DestroySession(x.id, apis.ReasonUserRequested, byOperator)
		if errors.Is(err, apis.ErrNotFound) {
			p.Type = ProgressAbsent
		} else if err != nil {
			return err
		}
		if err := t.out.send(t.line(p)); err != nil {
			return err
		}
	}
	if !wait {
		return t.result(nil)
	}
	t.finish = s.deps.Declare.WaitSessionGone // its network goes with it
	return t.run(r.Context(), timeout, s.waitGone)
}

// deleteKernel answers DELETE /v1/kernels/{ref}.
func (s *Server) deleteKernel(w http.ResponseWriter, r *http.Request) error {
	begin := time.Now()
	wait, timeout, err := waitOptions(r)
	if err != nil {
		return err
	}
	k, err := s.deps.Declare.FindKernel(r.PathValue("ref"))
	if err != nil {
		return err
	}
	if err := s.deps.Declare.DestroyKernel(k.Name, k.Spec.SessionID, apis.ReasonUserRequested, false); err != nil {
		return err
	}
	title := k.Spec.SessionID
	if x, err := s.deps.Declare.FindSession(k.Spec.SessionID); err == nil {
		title = cmp.Or(x.Spec.Title, title)
	}
	x := toldSession{id: k.Spec.SessionID, title: title, kernels: []toldKernel{{k.Name, k.Spec.Hostname}}}
	t := s.newTeller(w, begin, []toldSession{x})
	defer t.stop()
	if err := t.out.send(t.line(Progress{Type: ProgressAccepted, Session: title, SessionID: x.id, KernelID: k.Name, Host: k.Spec.Hostname})); err != nil {
		return err
	}
	if !wait {
		return t.result(nil)
	}
	return t.run(r.Context(), timeout, s.waitGone)
}

func (s *Server) waitGone(ctx context.Context, k toldKernel) Progress {
	if err := s.deps.Declare.WaitKernelGone(ctx, k.id); err != nil {
		return Progress{Reason: "timeout", Message: err.Error()}
	}
	p := Progress{OK: true, Phase: apis.PhaseTerminated}
	if end, ok := s.lastEnd(k.id); ok {
		p.Reason, p.ExitCode = end.Reason, end.ExitCode
	}
	return p
}

func sessionsOf(list []intake.Session) []toldSession {
	var out []toldSession
	for _, x := range list {
		t := toldSession{id: x.ID, title: x.Spec.Title}
		for _, id := range x.Spec.Kernels {
			t.kernels = append(t.kernels, toldKernel{id, x.Kernels[id].Hostname})
		}
		out = append(out, t)
	}
	return out
}

// storedSessions are the sessions of a file, with the kernels that they have now.
func (s *Server) storedSessions(list []intake.Session) []toldSession {
	var out []toldSession
	for _, t := range sessionsOf(list) {
		x, ok := s.deps.Set.Tables.Sessions.Reader().Get(t.id)
		if ok {
			t = s.storedSession(x)
		} else {
			t.kernels = nil
		}
		out = append(out, t)
	}
	return out
}

func (s *Server) storedSession(x *apis.ClusterSession) toldSession {
	t := toldSession{id: x.Name, title: cmp.Or(x.Spec.Title, x.Name)}
	for _, id := range x.Spec.Kernels {
		if k, ok := s.deps.Set.Tables.Kernels.Reader().Get(id); ok { // others have ended before
			t.kernels = append(t.kernels, toldKernel{id, k.Spec.Hostname})
		}
	}
	return t
}
