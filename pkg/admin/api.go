// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"agentd/pkg/apis"
)

// Limits of what a client may send, in bytes.
const (
	maxHeader = 32 << 10
	maxBody   = 1 << 20
	maxExec   = 256 << 10
)

// VersionInfo is the answer to GET /version.
type VersionInfo struct {
	Version string `json:"version"`
	// AgentID is empty while the node is not known.
	AgentID string    `json:"agentID,omitempty"`
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
}

// Change is one line of a watched list.
type Change struct {
	// Type is "put" for an object that is there, "gone" for one that no longer
	// is, "listed" once everything that was there at the beginning has been sent.
	Type   string          `json:"type"`
	Name   string          `json:"name,omitempty"`
	Object json.RawMessage `json:"object,omitempty"`
}

// The types of a [Change].
const (
	ChangePut    = "put"
	ChangeGone   = "gone"
	ChangeListed = "listed"
)

// Progress is one line of what is told while sessions or kernels come and go.
type Progress struct {
	// Type is one of the Progress constants.
	Type      string `json:"type"`
	Session   string `json:"session,omitempty"`
	SessionID string `json:"sessionID,omitempty"`
	KernelID  string `json:"kernelID,omitempty"`
	Host      string `json:"host,omitempty"`
	// Phase is a kernel's phase; Message says what it waits for, or why it failed.
	Phase   apis.Phase `json:"phase,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	// OK tells how it went; it holds for ProgressKernelDone and ProgressResult.
	OK       bool `json:"ok,omitempty"`
	ExitCode *int `json:"exitCode,omitempty"`
	// Elapsed is the time since the request, in nanoseconds.
	Elapsed time.Duration `json:"elapsed"`
}

// The types of a [Progress].
const (
	// ProgressAccepted: the wish is stored, on disk.
	ProgressAccepted = "accepted"
	// ProgressAbsent: what shall go is not there.
	ProgressAbsent = "absent"
	// ProgressKernel: a kernel's phase, or what it waits for, changed.
	ProgressKernel = "kernel"
	// ProgressKernelDone: the kernel is ready, failed, or gone.
	ProgressKernelDone = "kernel-done"
	// ProgressResult is the last line.
	ProgressResult = "result"
)

// failure is the body of every answer that is not a success.
type failure struct {
	Error string `json:"error"`
	Class string `json:"class,omitempty"`
}

// classes ties the error classes to status codes, so that they survive the way to the client.
var classes = []struct { //nolint:gochecknoglobals // a table
	name   string
	err    error
	status int
}{
	{"not-found", apis.ErrNotFound, http.StatusNotFound},
	{"conflict", apis.ErrConflict, http.StatusConflict},
	{"invalid", apis.ErrInvalid, http.StatusBadRequest},
	{"unavailable", apis.ErrUnavailable, http.StatusServiceUnavailable},
}

// RemoteError is an error that the daemon answered with. It is of the class
// that the daemon gave it.
type RemoteError struct {
	Text   string
	Status int
	class  error
}

// Error returns the daemon's text.
func (e *RemoteError) Error() string { return e.Text }

// Unwrap returns the class, one of those of package apis, or nil.
func (e *RemoteError) Unwrap() error { return e.class }

func encodeFailure(err error) (int, failure) {
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.status, failure{Error: err.Error(), Class: c.name}
		}
	}
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		text := fmt.Sprintf("the request is too large; at most %d bytes are accepted", big.Limit)
		return http.StatusRequestEntityTooLarge, failure{Error: text, Class: "invalid"}
	}
	return http.StatusInternalServerError, failure{Error: err.Error()}
}

func decodeFailure(status int, f failure) error {
	out := &RemoteError{Text: f.Error, Status: status}
	for _, c := range classes {
		if c.name == f.Class {
			out.class = c.err
		}
	}
	return out
}
