// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
)

// progress shows how kernels come or go: a line for each change on standard
// error, in place where that is a terminal, and what came of it on standard
// output.
type progress struct {
	s      streams
	goal   string // what the kernels shall be: ready, gone
	inline bool
	failed bool

	order []string // kernels in the order of their first line
	rows  map[string]admin.Progress
	drawn int // rows on the terminal
}

func newProgress(s streams, goal string) *progress {
	return &progress{s: s, goal: goal, inline: isTerminal(s.err), rows: map[string]admin.Progress{}}
}

// isTerminal tells whether somebody looks at a stream.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// take shows one line of progress.
func (p *progress) take(x admin.Progress) error {
	switch x.Type {
	case admin.ProgressAccepted:
		p.say(p.s.err, "%s: %s", nameOf(x), p.accepted())
	case admin.ProgressAbsent:
		p.say(p.s.out, "session %s does not exist", x.Session)
	case admin.ProgressKernel, admin.ProgressKernelDone:
		p.kernel(x)
	case admin.ProgressResult:
		p.result(x)
	}
	return nil
}

func (p *progress) accepted() string {
	if p.goal == "gone" {
		return "ending"
	}
	return "accepted"
}

func nameOf(x admin.Progress) string {
	if x.Host != "" {
		return "kernel " + x.Session + "/" + x.Host
	}
	return "session " + x.Session
}

func (p *progress) kernel(x admin.Progress) {
	if _, known := p.rows[x.KernelID]; !known {
		p.order = append(p.order, x.KernelID)
	}
	p.rows[x.KernelID] = x
	if !p.inline {
		p.say(p.s.err, "%s", p.line(x))
		return
	}
	if p.drawn > 0 {
		p.write(p.s.err, "\x1b[%dA", p.drawn)
	}
	for _, id := range p.order {
		p.write(p.s.err, "\x1b[2K%s\n", p.line(p.rows[id]))
	}
	p.drawn = len(p.order)
}

// line is "   0.8s  demo/main1  Creating  creating its container".
func (p *progress) line(x admin.Progress) string {
	state, more := string(x.Phase), x.Message
	if x.Type == admin.ProgressKernelDone {
		state = p.goal
		if !x.OK {
			state = "FAILED"
		} else if x.Phase == apis.PhaseTerminated && p.goal == "ready" {
			state = "ended"
		}
		more = cmp.Or(more, x.Reason)
		if x.Reason != "" && x.Message != "" {
			more = x.Reason + ": " + x.Message
		}
		if x.ExitCode != nil && x.Phase == apis.PhaseTerminated {
			more += fmt.Sprintf(" (exit code %d)", *x.ExitCode)
		}
	}
	out := fmt.Sprintf("%7s  %-20s  %s", seconds(x.Elapsed), x.Session+"/"+x.Host, state)
	if more != "" {
		out = fmt.Sprintf("%-46s  %s", out, more)
	}
	return oneLine(out)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// result says in one line how it went.
func (p *progress) result(x admin.Progress) {
	good, bad := 0, 0
	for _, r := range p.rows {
		switch {
		case r.Type != admin.ProgressKernelDone:
		case r.OK:
			good++
		default:
			bad++
		}
	}
	p.failed = !x.OK
	switch {
	case p.failed:
		p.say(p.s.err, "agentd: %d of %s not %s: %s", bad, count(good+bad, "kernel"), p.goal, x.Message)
		if x.Reason == "timeout" {
			p.say(p.s.err, "agentd: nothing was undone, and agentd goes on; \"agentd get kernels\" shows how far it is")
		}
	case good > 0:
		p.say(p.s.out, "%s %s in %s", count(good, "kernel"), p.goal, seconds(x.Elapsed))
	}
}

// end turns a failure while progress was shown into the command's error.
func (p *progress) end(err error) error {
	if err == nil && p.failed {
		return exitError(exitFailed)
	}
	return err
}

// say writes a line. What is drawn in place before it stays.
func (p *progress) say(w io.Writer, form string, args ...any) {
	p.drawn = 0
	p.write(w, form+"\n", args...)
}

// write writes to somebody who may have stopped listening; the exit code still tells.
func (*progress) write(w io.Writer, form string, args ...any) { _, _ = fmt.Fprintf(w, form, args...) }
