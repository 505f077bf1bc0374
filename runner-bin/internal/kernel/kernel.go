// SPDX-License-Identifier: Apache-2.0

// Package kernel is what runs for as long as a kernel lives: it prepares the user's environment, answers the agent,
// serves SSH and runs the kernel's own command.
package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"agentd/pkg/apis/record"
	"agentd/runner-bin/internal/accounts"
	"agentd/runner-bin/internal/childenv"
	"agentd/runner-bin/internal/control"
	"agentd/runner-bin/internal/identity"
	"agentd/runner-bin/internal/keys"
	"agentd/runner-bin/internal/layout"
	"agentd/runner-bin/internal/say"
	"agentd/runner-bin/internal/sshd"
)

// Kernel is one run of the runner.
type Kernel struct {
	Layout  layout.Layout
	Environ []string
	Stdin   *os.File
	Stdout  *os.File
	Stderr  *os.File
	Version string
	// Self runs this binary again: its path and arguments before a command's name.
	Self []string
	// Listen is the address of the SSH server without its port.
	Listen string
	// Signals brings the process's signals.
	Signals <-chan os.Signal
}

// Run prepares the kernel, runs the command if there is one, and returns the exit code: the command's own (128+N after
// signal N, 126 or 127 when it cannot be run), or 0 when a stop signal ended the kernel. Nothing that fails in the
// preparation keeps a kernel from running; it is said in the log and in the status.
func (k *Kernel) Run(command []string) int {
	log := say.To(k.Stdout, "bai-runner: ")
	state := record.CommandNone
	if len(command) > 0 {
		state = record.CommandPending
	}
	board := control.NewBoard(record.StatusPayload{
		Stage:     record.StageSetup,
		Version:   k.Version,
		StartedAt: time.Now().UTC().Truncate(time.Millisecond),
		Command:   record.Command{State: state},
	})
	r := &run{Kernel: k, log: log, board: board}
	socket, err := control.Listen(k.Layout.At(layout.RunSocket), "bai-runner "+k.Version, board)
	if err != nil {
		r.warn("%v", err)
	} else {
		defer socket.Close()
	}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	go r.watchSignals(stop)

	if r.prepare(ctx) {
		if server := r.serveSSH(); server != nil {
			defer server.Close()
		}
	}
	if ctx.Err() != nil {
		return 0
	}
	return r.command(ctx, command)
}

// errStopped is the cause of a context that a stop signal ended.
var errStopped = errors.New("told to stop")

// run is the state of one Run.
type run struct {
	*Kernel
	log   *say.Printer
	board *control.Board
	env   *childenv.Env
	jobs  jobs
}

// warn says something in the log and in the status.
func (r *run) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.log.Linef("%s", text)
	r.board.Warn(text)
}

// prepare builds the environment and the keys and runs the user's bootstrap script. It returns false when the kernel
// was told to stop meanwhile.
func (r *run) prepare(ctx context.Context) bool {
	env, err := childenv.Build(r.Layout, r.Environ)
	if err != nil {
		r.warn("environment: %v", err)
	}
	r.env = env
	if info, err := os.Stat(r.Layout.At(layout.Work)); err != nil {
		r.warn("home directory: %v", err)
	} else if owner, ok := ownerOf(info); ok && owner != os.Getuid() {
		r.warn("%s belongs to user %d, not to user %d", layout.Work, owner, os.Getuid())
	}
	if err := keys.Setup(r.Layout, env.Get); err != nil {
		r.warn("ssh keys: %v", err)
	}
	r.board.Update(func(s *record.StatusPayload) { s.Stage = record.StageBootstrap })
	r.bootstrap(ctx)
	return ctx.Err() == nil
}

// bootstrap runs the user's script and waits for it, without limit: the agent decides how long a start may take.
func (r *run) bootstrap(ctx context.Context) {
	script := r.Layout.At(layout.UserBootstrap)
	if info, err := os.Stat(script); err != nil || !info.Mode().IsRegular() {
		return
	}
	sh := r.Layout.Sh()
	if sh == "" {
		r.warn("bootstrap.sh skipped: the image has no shell to run it")
		return
	}
	cmd := exec.Command(r.Layout.At(sh), script)
	cmd.Stdout, cmd.Stderr = r.Stdout, r.Stderr
	code, err := r.jobs.run(ctx, r.job(cmd, false))
	switch {
	case ctx.Err() != nil:
	case err != nil:
		r.warn("bootstrap.sh: %v", err)
	case code != 0:
		r.warn("bootstrap.sh ended with exit code %d", code)
	}
}

// serveSSH starts the SSH server. A port in use is a kernel without SSH, not a kernel that fails.
func (r *run) serveSSH() *sshd.Server {
	port := layout.SSHPort
	if own, err := intrinsicPort(r.Layout, "sshd"); err != nil {
		r.warn("%v", err)
	} else if own != 0 {
		port = own
	}
	server, err := r.listenSSH(port)
	if err != nil {
		r.warn("%v", err)
	}
	r.board.Update(func(s *record.StatusPayload) {
		s.SSH = record.Service{Port: port}
		if err != nil {
			s.SSH.Problem = err.Error()
		} else if tcp, ok := server.Addr().(*net.TCPAddr); ok {
			s.SSH.Port = tcp.Port
		}
	})
	return server
}

func (r *run) listenSSH(port int) (*sshd.Server, error) {
	hostKey, err := keys.HostKey(r.Layout)
	if hostKey == nil {
		return nil, err
	}
	if err != nil {
		r.warn("%v", err)
	}
	users := []string{accounts.Name}
	if user, ok := identity.ReadDatabase(r.Layout.At("/etc")).UserByID(os.Getuid()); ok && user.Name != accounts.Name {
		users = append(users, user.Name)
	}
	shell := r.env.Get("SHELL")
	if !layout.Executable(r.Layout.At(shell)) {
		shell = r.Layout.Shell()
	}
	if shell != "" {
		shell = r.Layout.At(shell)
	}
	return sshd.Listen(net.JoinHostPort(r.Listen, strconv.Itoa(port)), sshd.Config{
		HostKey:     hostKey,
		Version:     r.Version,
		Users:       users,
		UserKeys:    r.Layout.At(layout.UserSSH + "/authorized_keys"),
		ClusterKeys: r.Layout.At(layout.ClusterPub),
		Env:         r.env.List(),
		Home:        r.Layout.At(layout.Work),
		Shell:       shell,
		Self:        r.Self,
		Log:         r.log,
	})
}

// intrinsicPort reads a port of our own services where the agent had to choose it; 0 means the usual one.
func intrinsicPort(l layout.Layout, name string) (int, error) {
	data, err := os.ReadFile(l.At(layout.IntrinsicPorts))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var ports map[string]int
	if err == nil {
		err = json.Unmarshal(data, &ports)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", layout.IntrinsicPorts, err)
	}
	if port := ports[name]; port >= 0 && port < 1<<16 {
		return port, nil
	}
	return 0, fmt.Errorf("%s: port %d of %s is out of range", layout.IntrinsicPorts, ports[name], name)
}

// command runs the kernel's own command, or waits for the end when there is none.
func (r *run) command(ctx context.Context, command []string) int {
	ready := func(change func(*record.Command)) {
		r.board.Update(func(s *record.StatusPayload) {
			s.Ready, s.Stage = true, record.StageRunning
			change(&s.Command)
		})
	}
	defer r.board.Update(func(s *record.StatusPayload) { s.Ready, s.Stage = false, record.StageStopping })
	if len(command) == 0 {
		ready(func(*record.Command) {})
		<-ctx.Done()
		return 0
	}

	program, ok := r.Layout.FindProgram(command[0], r.env.Get("PATH"))
	if !ok {
		r.log.Linef("cannot run %s: no such program in the image", command[0])
		return 127
	}
	cmd := exec.Command(r.Layout.At(program))
	cmd.Args = command
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.Stdin, r.Stdout, r.Stderr
	j := r.job(cmd, true)
	j.started = func(pid int) {
		ready(func(c *record.Command) { c.State, c.PID = record.CommandRunning, pid })
	}
	code, err := r.jobs.run(ctx, j)
	if errors.Is(context.Cause(ctx), errStopped) {
		return 0
	}
	if err != nil {
		r.log.Linef("cannot run %s: %v", command[0], err)
		return 126
	}
	r.board.Update(func(s *record.StatusPayload) {
		s.Command.State, s.Command.PID, s.Command.ExitCode = record.CommandExited, 0, code
	})
	return code
}

// job completes a command with what all of them have in common.
func (r *run) job(cmd *exec.Cmd, foreground bool) job {
	cmd.Env = r.env.List()
	if info, err := os.Stat(r.Layout.At(layout.Work)); err == nil && info.IsDir() {
		cmd.Dir = r.Layout.At(layout.Work)
	}
	return job{cmd: cmd, foreground: foreground}
}
