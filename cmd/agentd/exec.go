// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"agentd/pkg/admin"
	"agentd/pkg/runtime"
)

func newExecCommand(s streams, g *globals) *cobra.Command {
	var stdin, tty, root bool
	cmd := &cobra.Command{
		Use:   "exec KERNEL -- COMMAND [ARGUMENT]...",
		Short: "Run a command in a kernel",
		Long: `Run a command in a kernel as its user, with its environment, in /home/work.
The exit code is that of the command.`,
		Example: `  agentd exec demo/main1 -- env
  agentd exec -it demo/main1 -- sh
  tar c data | agentd exec -i demo/sub1 -- tar x`,
		Args: func(_ *cobra.Command, args []string) error {
			if _, command := splitExec(args); len(command) == 0 {
				return usagef("a kernel and a command are needed: agentd exec demo/main1 -- env")
			}
			return nil
		},
		ValidArgsFunction: g.completeKernels,
		RunE: func(cmd *cobra.Command, args []string) error {
			kernel, command := splitExec(args)
			return g.exec(cmd.Context(), s, kernel, admin.ExecRequest{Cmd: command, TTY: tty, Root: root}, stdin)
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the kernel belongs to the command
	cmd.Flags().BoolVarP(&stdin, "stdin", "i", false, "pass standard input on")
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "give the command a terminal")
	cmd.Flags().BoolVar(&root, "root", false, "run it as root instead of as the kernel's user")
	return cmd
}

// splitExec takes the "--" away that may stand before the command: what follows
// the kernel is not parsed, so it is still there.
func splitExec(args []string) (kernel string, command []string) {
	switch {
	case len(args) == 0:
		return "", nil
	case len(args) > 1 && args[1] == "--":
		return args[0], args[2:]
	}
	return args[0], args[1:]
}

func newSSHCommand(s streams, g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ssh SESSION/HOST [COMMAND]...",
		Short: "Log in to a host of a session",
		Long: `Log in to a host of a session as its user, or run a command line there with a
shell, as ssh does. The exit code is that of the shell or the command.

It goes through the daemon's socket: no key, port or network is needed.`,
		Example: `  agentd ssh demo/main1
  agentd ssh demo/main1 ssh sub1 hostname
  agentd ssh demo 'echo $BACKENDAI_CLUSTER_HOSTS'`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: g.completeKernels,
		RunE: func(cmd *cobra.Command, args []string) error {
			interactive := len(args) == 1
			req := admin.ExecRequest{Cmd: loginShell(strings.Join(args[1:], " "))}
			req.TTY = interactive && isTerminal(s.in) && isTerminal(s.out)
			return g.exec(cmd.Context(), s, args[0], req, true)
		},
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// loginShell starts the best shell that the image has, as the SSH server in the
// kernel does; the command line is empty for a login.
func loginShell(line string) []string {
	const script = `for s in /bin/bash /usr/bin/bash /bin/ash /bin/sh; do
  if [ -x "$s" ]; then
    export SHELL="$s"
    if [ -n "$1" ]; then exec "$s" -c "$1"; fi
    exec "$s" -l
  fi
done`
	return []string{"/bin/sh", "-c", script, "agentd-ssh", line}
}

// exec runs a command with the streams of this process and ends with its exit code.
func (g *globals) exec(ctx context.Context, s streams, ref string, req admin.ExecRequest, stdin bool) error {
	c, err := g.client()
	if err != nil {
		return err
	}
	streams := runtime.ExecStreams{Stdout: s.out, Stderr: s.err}
	if stdin {
		streams.Stdin = s.in
	}
	if req.TTY {
		if !stdin {
			return usagef("--tty is of no use without --stdin: use -it")
		}
		in, ok := s.in.(*os.File)
		if !ok || !term.IsTerminal(int(in.Fd())) {
			return usagef("--tty: standard input is not a terminal; leave -t out")
		}
		restore, sizes, err := rawTerminal(in, &req)
		if err != nil {
			return err
		}
		defer restore()
		streams.Resize = sizes
	}
	code, err := c.Exec(ctx, ref, req, streams)
	switch {
	case err != nil && errors.Is(err, admin.ErrUnreachable):
		return err
	case err != nil:
		return fmt.Errorf("%s: %w", ref, err)
	case code != 0:
		return exitError(code)
	}
	return nil
}

// rawTerminal hands every key on, and tells of the terminal's sizes.
func rawTerminal(in *os.File, req *admin.ExecRequest) (restore func(), sizes <-chan runtime.TermSize, err error) {
	fd := int(in.Fd())
	size := func() runtime.TermSize {
		cols, rows, err := term.GetSize(fd)
		if err != nil {
			return runtime.TermSize{}
		}
		return runtime.TermSize{Rows: uint(rows), Cols: uint(cols)} //nolint:gosec // not negative
	}
	req.Size, req.Term = size(), os.Getenv("TERM")
	old, err := term.MakeRaw(fd)
	if err != nil {
		return nil, nil, fmt.Errorf("the terminal cannot be used: %w", err)
	}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	out := make(chan runtime.TermSize)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-changes:
			}
			select {
			case <-done:
				return
			case out <- size():
			}
		}
	}()
	return func() {
		signal.Stop(changes)
		close(done)
		_ = term.Restore(fd, old)
	}, out, nil
}
