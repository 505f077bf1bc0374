// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// toldSession is a session whose progress is told.
type toldSession struct {
	id, title string
	kernels   []toldKernel
}

type toldKernel struct{ id, host string }

// teller tells a client how kernels come or go.
type teller struct {
	s        *Server
	out      *lines
	begin    time.Time
	sessions []toldSession
	changed  *pending
	stop     func()
	last     map[string]Progress
	// finish, if there is one, waits for the rest of a session after its kernels.
	finish func(ctx context.Context, sessionID string) error
}

// newTeller starts following the kernels; stop has to be called.
func (s *Server) newTeller(w http.ResponseWriter, begin time.Time, sessions []toldSession) *teller {
	mine := map[string]bool{}
	for _, x := range sessions {
		for _, k := range x.kernels {
			mine[k.id] = true
		}
	}
	t := &teller{s: s, out: newLines(w), begin: begin, sessions: sessions, last: map[string]Progress{}}
	t.changed, t.stop = s.follow(func(k apis.Key) bool { return k.Kind == apis.KindKernel && mine[k.Name] })
	return t
}

func (t *teller) line(p Progress) Progress {
	p.Elapsed = time.Since(t.begin).Round(time.Millisecond)
	return p
}

// outcome is how waiting for one kernel, or for the end of a session, went.
type outcome struct {
	session toldSession
	kernel  toldKernel
	p       Progress
}

// run waits for every kernel and, where they shall go, for their session, and
// tells what happens meanwhile.
func (t *teller) run(ctx context.Context, timeout time.Duration, wait func(context.Context, toldKernel) Progress) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it took longer than %s", timeout))
	defer cancel() // ends the waiters; none of them needs this function any more then
	n := 0
	for _, x := range t.sessions {
		n += len(x.kernels)
	}
	done := make(chan outcome, n)
	for _, x := range t.sessions {
		for _, k := range x.kernels {
			go func() { done <- outcome{x, k, wait(ctx, k)} }()
		}
	}
	var failed []outcome
	for ; n > 0; n-- {
		o, err := t.next(done)
		if err != nil {
			return err
		}
		if !o.p.OK {
			failed = append(failed, o)
		}
		o.p.Type = ProgressKernelDone
		if err := t.tell(o.session, o.kernel, o.p); err != nil {
			return err
		}
	}
	for _, x := range t.sessions {
		if t.finish == nil {
			break
		}
		if err := t.finish(ctx, x.id); err != nil {
			failed = append(failed, outcome{x, toldKernel{host: "its network"}, Progress{Reason: "timeout", Message: err.Error()}})
		}
	}
	return t.result(failed)
}

// next returns the next outcome, and tells of phases until then.
func (t *teller) next(done <-chan outcome) (outcome, error) {
	for {
		select {
		case o := <-done:
			return o, nil
		case <-t.changed.woken:
			if err := t.phases(); err != nil {
				return outcome{}, err
			}
		}
	}
}

// phases tells of the kernels whose phase, or what they wait for, has changed.
func (t *teller) phases() error {
	changed := map[string]bool{}
	for _, name := range t.changed.take() {
		changed[name] = true
	}
	for _, x := range t.sessions {
		for _, k := range x.kernels {
			if !changed[k.id] {
				continue
			}
			o, ok := t.s.deps.Set.Tables.Kernels.Reader().Get(k.id)
			if !ok {
				continue
			}
			p := Progress{Type: ProgressKernel, Phase: o.Status.Phase}
			if c, ok := o.Status.Conditions.Get(apis.Ready); ok && !c.Status {
				p.Message = c.Message
			}
			if o.Deleting {
				p.Reason, p.Message = o.DeleteReason, o.DeleteMessage
			}
			if err := t.tell(x, k, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell sends a line about a kernel, unless it says what the last one said. The
// word on what became of a kernel is its last: phases that are heard of later
// are older.
func (t *teller) tell(x toldSession, k toldKernel, p Progress) error {
	p.Session, p.SessionID, p.KernelID, p.Host = x.title, x.id, k.id, k.host
	last := t.last[k.id]
	if last.Type == ProgressKernelDone {
		return nil
	}
	if last.Type == p.Type && last.Phase == p.Phase && last.Reason == p.Reason && last.Message == p.Message {
		return nil
	}
	t.last[k.id] = p
	return t.out.send(t.line(p))
}

// result ends the stream.
func (t *teller) result(failed []outcome) error {
	p := Progress{Type: ProgressResult, OK: len(failed) == 0}
	if n := len(failed); n > 0 {
		p.Reason = failed[0].p.Reason
		p.Message = fmt.Sprintf("%s/%s: %s", failed[0].session.title, failed[0].kernel.host, failed[0].p.Message)
		if n > 1 {
			p.Message += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	return t.out.send(t.line(p))
}

// lastEnd returns the event that reported the kernel's latest end, while it is kept.
func (s *Server) lastEnd(kernelID string) (apis.EventSpec, bool) {
	return controller.LastEnd(s.deps.Set.Tables.Events.Reader(), kernelID)
}
