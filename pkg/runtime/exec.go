// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"io"
)

// Execer runs commands inside containers.
type Execer interface {
	// Exec runs a command in a running container until it ends and returns its
	// exit code. It ends with ctx; the command itself may then stay.
	Exec(ctx context.Context, containerID string, spec ExecSpec, streams ExecStreams) (int, error)
}

// ExecSpec is a command to run inside a container.
type ExecSpec struct {
	Cmd        []string
	Env        []string
	User       string
	WorkingDir string
	// TTY gives it a terminal; stdout and stderr are then one stream.
	TTY bool
	// Size is the terminal's first size; zero for the engine's default.
	Size TermSize
}

// TermSize is a terminal's size in characters.
type TermSize struct {
	Rows uint `json:"rows,omitempty"`
	Cols uint `json:"cols,omitempty"`
}

// ExecStreams are the command's streams; nil ones are not attached. Resize is
// read until it is closed or the command ends.
type ExecStreams struct {
	// Stdin is copied until it ends, and its end is passed on. A read that is
	// under way when the command ends is left behind: close Stdin afterwards.
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Resize <-chan TermSize
}
