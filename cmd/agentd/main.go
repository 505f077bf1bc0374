// SPDX-License-Identifier: Apache-2.0

// Command agentd is the Backend.AI agent of one node, and the command line that
// talks to it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"agentd/pkg/apis/config"
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(run(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Exit codes that all commands share. A command run in a kernel gives its own.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// exitError ends the program with that code and says nothing more.
type exitError int

// Error names the code.
func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is a mistake on the command line: exit code 2.
type usageError struct{ err error }

// Error returns the mistake's text.
func (e usageError) Error() string { return e.err.Error() }

// Unwrap returns the mistake.
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run carries out a command line and returns the exit code.
func run(args []string, s streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	fmt.Fprintf(s.err, "agentd: %v\n", err)
	if _, ok := errors.AsType[usageError](err); ok || errors.Is(err, config.ErrUsage) {
		fmt.Fprintf(s.err, "See \"%s --help\".\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailed
}
