// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"agentd/runner-bin/internal/identity"
)

// lastWords is how long a terminal may stay silent after its program ended before it is closed under those who still
// hold it open.
const lastWords = 100 * time.Millisecond

// program is what runs in a session, in a process group of its own.
type program struct {
	// complaint and code stand for a program that could not be run.
	complaint string
	code      int

	process *os.Process
	// tty is our end of the program's terminal, nil without one.
	tty *os.File
	// Our ends of the pipes of a program without terminal.
	stdin, stdout, stderr *os.File

	exited atomic.Bool
}

// exit is how a program ended.
type exit struct {
	code   int
	signal syscall.Signal
	dumped bool
}

func spawn(path string, argv, env []string, dir string, term *terminal) (*program, error) {
	p := &program{}
	attr := &os.ProcAttr{Dir: dir, Env: env, Sys: &syscall.SysProcAttr{Setsid: true}}
	var theirs []*os.File
	defer func() {
		for _, file := range theirs {
			_ = file.Close()
		}
	}()

	if term != nil {
		tty, slave, err := openTerminal(term.size)
		if err != nil {
			return nil, err
		}
		p.tty, theirs = tty, []*os.File{slave}
		attr.Env = identity.WithVariable(identity.WithVariable(env, "TERM", term.name), "SSH_TTY", slave.Name())
		attr.Files = []*os.File{slave, slave, slave}
		attr.Sys.Setctty = true
	} else {
		for i, ours := range []**os.File{&p.stdin, &p.stdout, &p.stderr} {
			r, w, err := os.Pipe()
			if err != nil {
				p.closeFiles()
				return nil, err
			}
			if i == 0 {
				r, w = w, r
			}
			*ours = r
			theirs = append(theirs, w)
		}
		attr.Files = theirs
	}

	process, err := os.StartProcess(path, argv, attr)
	if err != nil {
		p.closeFiles()
		return nil, err
	}
	p.process = process
	return p, nil
}

func (p *program) closeFiles() {
	for _, file := range []*os.File{p.tty, p.stdin, p.stdout, p.stderr} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// attach connects the program to the channel, and closes the channel when the program has ended and said everything.
func (p *program) attach(stream ssh.Channel) {
	if p.process == nil {
		go func() {
			_, _ = io.WriteString(stream.Stderr(), p.complaint)
			finish(stream, exit{code: p.code})
		}()
		return
	}
	var outputs sync.WaitGroup
	if p.tty != nil {
		go func() { _, _ = io.Copy(p.tty, stream) }()
		outputs.Go(func() { p.copyTerminal(stream) })
	} else {
		go func() {
			_, _ = io.Copy(p.stdin, stream)
			_ = p.stdin.Close()
		}()
		outputs.Go(func() { copyOut(stream, p.stdout) })
		outputs.Go(func() { copyOut(stream.Stderr(), p.stderr) })
	}
	go func() {
		end := p.wait()
		outputs.Wait()
		finish(stream, end)
		p.closeFiles()
	}()
}

// copyOut passes output on. When the client takes no more, the program learns it as from any closed pipe.
func copyOut(to io.Writer, from *os.File) {
	_, _ = io.Copy(to, from)
	_ = from.Close()
}

// copyTerminal passes a terminal's output on until nobody has it open, or the program has ended and what it wrote is
// through.
func (p *program) copyTerminal(to io.Writer) {
	buf := make([]byte, 16<<10)
	for {
		ended := p.exited.Load()
		if ended {
			_ = p.tty.SetReadDeadline(time.Now().Add(lastWords))
		}
		n, err := p.tty.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil && (ended || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return
		}
	}
}

// wait reaps the program.
func (p *program) wait() exit {
	state, err := p.process.Wait()
	p.exited.Store(true)
	if p.tty != nil {
		_ = p.tty.SetReadDeadline(time.Now()) // wakes copyTerminal
	}
	if err != nil {
		return exit{code: 255}
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		return exit{signal: status.Signal(), dumped: status.CoreDump()}
	default:
		return exit{code: state.ExitCode()}
	}
}

// hangUp tells the program that its client is gone.
func (p *program) hangUp() {
	if p.process == nil {
		return
	}
	if !p.exited.Load() {
		p.kill(syscall.SIGHUP)
	}
	p.closeFiles()
}

func (p *program) kill(sig syscall.Signal) {
	if err := syscall.Kill(-p.process.Pid, sig); err != nil {
		_ = p.process.Signal(sig)
	}
}

// signal sends a signal by its name in the protocol.
func (p *program) signal(name string) bool {
	sig, ok := signalNamed(name)
	if !ok || p.process == nil || p.exited.Load() {
		return false
	}
	p.kill(sig)
	return true
}

// signals are the names that the protocol knows.
func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM, "FPE": syscall.SIGFPE, "HUP": syscall.SIGHUP,
		"ILL": syscall.SIGILL, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE,
		"QUIT": syscall.SIGQUIT, "SEGV": syscall.SIGSEGV, "TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1,
		"USR2": syscall.SIGUSR2,
	}
}

func signalNamed(name string) (syscall.Signal, bool) {
	sig, ok := signals()[name]
	return sig, ok
}

// finish ends a channel: no more output, how it went, closed.
func finish(stream ssh.Channel, end exit) {
	_ = stream.CloseWrite()
	sendExit(stream, end)
	_ = stream.Close()
}

// sendExit tells the client how the program ended.
func sendExit(stream ssh.Channel, end exit) {
	if end.signal == 0 {
		_, _ = stream.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(end.code)}))
		return
	}
	for name, sig := range signals() {
		if sig == end.signal {
			_, _ = stream.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Name   string
				Dumped bool
				Text   string
				Lang   string
			}{name, end.dumped, sig.String(), ""}))
			return
		}
	}
	sendExit(stream, exit{code: 128 + int(end.signal)})
}
