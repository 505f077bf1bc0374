// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"agentd/pkg/admin"
	"agentd/pkg/controller/intake"
)

// exitKernelFailed is the exit code of "agentd apply" when a kernel did not become ready.
const exitKernelFailed = 3

// waitFlags are the flags of commands that wait for kernels.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

func (f *waitFlags) add(cmd *cobra.Command, what string) {
	cmd.Flags().BoolVar(&f.wait, "wait", true, "wait until "+what)
	cmd.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "wait no longer than this")
}

func (f *waitFlags) options() (admin.WaitOptions, error) {
	if f.timeout <= 0 {
		return admin.WaitOptions{}, usagef("--timeout %s: a time such as 5m is needed", f.timeout)
	}
	return admin.WaitOptions{Wait: f.wait, Timeout: f.timeout}, nil
}

func newApplyCommand(s streams, g *globals) *cobra.Command {
	var file string
	var f waitFlags
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Start the cluster sessions of a session file",
		Long: `Hand a session file to the daemon and wait until all its kernels are ready.

The whole file is checked before anything is stored. A session that exists in
equal form is left as it is; one that exists in another form is an error.

Exit codes: 0 all kernels are ready, 1 nothing was started, 2 a mistake on the
command line, 3 started, but some kernel failed or took too long.`,
		Example: `  agentd apply -f examples/cluster.yaml
  agentd apply -f - --timeout 1m < session.yaml
  agentd apply -f session.yaml --wait=false`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options()
			if err != nil {
				return err
			}
			name, data, err := readSessionFile(s, file)
			if err != nil {
				return err
			}
			c, err := g.client()
			if err != nil {
				return err
			}
			p := newProgress(s, "ready")
			if err := c.Apply(cmd.Context(), name, data, o, p.take); err != nil {
				return p.end(err)
			}
			if p.failed {
				return exitError(exitKernelFailed)
			}
			return nil
		},
	}
	fileFlag(cmd, &file)
	f.add(cmd, "every kernel is ready or has failed")
	return cmd
}

func newDeleteCommand(s streams, g *globals) *cobra.Command {
	var file string
	var f waitFlags
	cmd := &cobra.Command{
		Use:     "delete {-f FILE | session NAME | kernel NAME}",
		Aliases: []string{"rm"},
		Short:   "End sessions or single kernels",
		Long: `End the sessions of a session file, one session, or one kernel, and wait until
nothing of them is left on the node.

Sessions of a file that do not exist are no error, so that the command can be
repeated; a name that nothing has is one.`,
		Example: `  agentd delete -f examples/cluster.yaml
  agentd delete session demo
  agentd delete kernel demo/sub2 --wait=false`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case file != "" && len(args) > 0:
				return usagef("give a file or a name, not both")
			case file == "" && len(args) != 2:
				return usagef("what to delete is missing: -f FILE, session NAME or kernel NAME")
			}
			return nil
		},
		ValidArgsFunction: g.completeDeletable,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options()
			if err != nil {
				return err
			}
			return g.delete(cmd, s, file, args, o)
		},
	}
	fileFlag(cmd, &file)
	f.add(cmd, "they are gone")
	return cmd
}

func (g *globals) delete(cmd *cobra.Command, s streams, file string, args []string, o admin.WaitOptions) error {
	c, err := g.client()
	if err != nil {
		return err
	}
	p := newProgress(s, "gone")
	if file != "" {
		name, data, err := readSessionFile(s, file)
		if err != nil {
			return err
		}
		err = c.DeleteFile(cmd.Context(), name, data, o, p.take)
		return p.end(err)
	}
	kind, err := admin.ParseKind(args[0])
	if err != nil {
		return usageError{err}
	}
	switch plural(kind) {
	case "clustersessions":
		err = c.DeleteSession(cmd.Context(), args[1], o, p.take)
	case "kernels":
		err = c.DeleteKernel(cmd.Context(), args[1], o, p.take)
	default:
		return usagef("%s cannot be deleted by hand: they follow from sessions and kernels", plural(kind))
	}
	return p.end(err)
}

func fileFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVarP(into, "file", "f", "", "session file, or - for standard input")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml") // the flag was defined just now
}

// readSessionFile reads a session file, no more than one may have.
func readSessionFile(s streams, file string) (name string, data []byte, err error) {
	var from io.Reader
	switch file {
	case "":
		return "", nil, usagef("-f FILE is missing; - is standard input")
	case "-":
		name, from = "standard input", s.in
	default:
		f, err := os.Open(file)
		if err != nil {
			return "", nil, fmt.Errorf("session file: %w", err)
		}
		defer func() { _ = f.Close() }()
		name, from = file, f
	}
	data, err = io.ReadAll(io.LimitReader(from, intake.MaxFileSize+1))
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("session file: %w", err)
	case len(data) > intake.MaxFileSize:
		return "", nil, fmt.Errorf("session file %s: it is larger than %d bytes", name, intake.MaxFileSize)
	}
	return name, data, nil
}
