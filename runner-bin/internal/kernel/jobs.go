// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// termWait is how long a job may take to end after SIGTERM.
const termWait = 2 * time.Second

// job is a program in a process group of its own, so that signals reach all of it and nothing else.
type job struct {
	cmd *exec.Cmd
	// foreground gives the job the container's terminal, if there is one: then Ctrl-C is for it and not for us.
	foreground bool
	// started is called with the process ID, may be nil.
	started func(pid int)
}

// jobs knows the job that runs now; there is never more than one.
type jobs struct {
	mu  sync.Mutex
	pid int
}

// run starts a job and waits for its end. When the context ends, the job is terminated.
func (j *jobs) run(ctx context.Context, job job) (code int, err error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if stdin, ok := job.cmd.Stdin.(*os.File); ok && job.foreground && stdin != nil && term.IsTerminal(int(stdin.Fd())) {
		attr.Foreground, attr.Ctty = true, int(stdin.Fd())
	}
	job.cmd.SysProcAttr = attr
	err = job.cmd.Start()
	if err != nil && attr.Foreground {
		// The terminal is not ours to give away, as in an odd container: run without.
		retry := exec.Command(job.cmd.Path)
		retry.Args, retry.Env, retry.Dir = job.cmd.Args, job.cmd.Env, job.cmd.Dir
		retry.Stdin, retry.Stdout, retry.Stderr = job.cmd.Stdin, job.cmd.Stdout, job.cmd.Stderr
		retry.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		job.cmd = retry
		err = retry.Start()
	}
	if err != nil {
		return 0, err
	}
	pid := job.cmd.Process.Pid
	j.set(pid)
	defer j.set(0)
	if job.started != nil {
		job.started(pid)
	}

	done := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		select {
		case <-done:
		case <-ctx.Done():
			j.signal(syscall.SIGTERM)
			j.signal(syscall.SIGCONT) // a stopped program cannot end
			timer := time.NewTimer(termWait)
			defer timer.Stop()
			select {
			case <-done:
			case <-timer.C:
				j.signal(syscall.SIGKILL)
			}
		}
	})
	err = job.cmd.Wait()
	close(done)
	killer.Wait()

	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	return exitCode(job.cmd.ProcessState), nil
}

func (j *jobs) set(pid int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pid = pid
}

// signal reaches the whole group of the running job, if there is one.
func (j *jobs) signal(sig syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.pid != 0 {
		_ = syscall.Kill(-j.pid, sig)
	}
}

// exitCode is the code by which a shell would report the end of a process.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

func ownerOf(info fs.FileInfo) (int, bool) {
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(sys.Uid), true
}
