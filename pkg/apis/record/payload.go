// SPDX-License-Identifier: Apache-2.0

package record

import "time"

// SocketName is the runner's socket in the directory that agent and kernel share.
const SocketName = "runner.sock"

// HelloPayload introduces one side to the other.
type HelloPayload struct {
	Protocol int `json:"protocol"`
	// Software is the name and version of the program, for logs.
	Software string `json:"software"`
}

// Failure codes.
const (
	CodeUnknownRequest  = "unknown-request"
	CodeUnknownProtocol = "unknown-protocol"
)

// FailurePayload says why a request was not carried out.
type FailurePayload struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Stage is how far a runner has come.
type Stage string

// The stages in their order.
const (
	// StageSetup: environment and keys are being prepared.
	StageSetup Stage = "setup"
	// StageBootstrap: the user's bootstrap script runs.
	StageBootstrap Stage = "bootstrap"
	// StageRunning: the kernel can be used.
	StageRunning Stage = "running"
	// StageStopping: the runner was told to stop, or its command ended.
	StageStopping Stage = "stopping"
)

// StatusPayload is what a runner says about itself and its kernel.
type StatusPayload struct {
	// Ready means that the kernel can be used: its bootstrap script has ended and its services were started.
	Ready     bool      `json:"ready"`
	Stage     Stage     `json:"stage"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	SSH       Service   `json:"ssh"`
	Command   Command   `json:"command"`
	// Warnings are remarks on what did not go as wanted, oldest first.
	Warnings []string `json:"warnings,omitempty"`
}

// Service is a port that the runner serves.
type Service struct {
	Port int `json:"port,omitempty"`
	// Problem says why it is not served, empty while it is.
	Problem string `json:"problem,omitempty"`
}

// CommandState is the state of a kernel's own command.
type CommandState string

// The states of a command.
const (
	CommandNone    CommandState = "none"
	CommandPending CommandState = "pending"
	CommandRunning CommandState = "running"
	CommandExited  CommandState = "exited"
)

// Command describes the kernel's own command.
type Command struct {
	State CommandState `json:"state"`
	PID   int          `json:"pid,omitempty"`
	// ExitCode is the exit status, 128+N after signal N; meaningful once exited.
	ExitCode int `json:"exit_code"`
}
