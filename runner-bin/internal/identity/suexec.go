// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"agentd/runner-bin/internal/layout"
	"agentd/runner-bin/internal/say"
)

// SuExec is the su-exec command: `su-exec user-spec command [args…]`. It only returns when it did not run the command:
// 0 after printing how it is used, 1 after an error.
func SuExec(args []string, stdout, stderr io.Writer) int {
	if len(args) < 2 {
		say.To(stdout, "").Linef("usage: su-exec user-spec command [args...]")
		return 0
	}
	fail := func(err error) int {
		say.To(stderr, "su-exec: ").Linef("%v", err)
		return 1
	}
	id, err := Resolve(args[0], ReadDatabase("/etc"), Current())
	if err != nil {
		return fail(err)
	}
	path := os.Getenv("PATH")
	if path == "" {
		path = layout.DefaultPath
	}
	// Who looks is who runs: a program only root can reach must fail here as it would in the original.
	if err := id.Assume(); err != nil {
		return fail(err)
	}
	program, ok := layout.Layout{}.FindProgram(args[1], path)
	if !ok {
		program = args[1]
		if !strings.Contains(program, "/") {
			return fail(fmt.Errorf("%s: not found in PATH", program))
		}
	}
	err = syscall.Exec(program, args[1:], WithVariable(os.Environ(), "HOME", id.Home))
	return fail(fmt.Errorf("run %s: %w", program, err))
}

// WithVariable returns the environment with one variable set, replacing every earlier value.
func WithVariable(env []string, name, value string) []string {
	out := make([]string, 0, len(env)+1)
	for _, entry := range env {
		if !strings.HasPrefix(entry, name+"=") {
			out = append(out, entry)
		}
	}
	return append(out, name+"="+value)
}
