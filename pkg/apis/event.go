// SPDX-License-Identifier: Apache-2.0

package apis

import "time"

// Event tells the manager something, in order. Names sort in the order of the
// changes that they report.
type Event = Object[EventSpec, EventStatus]

// EventType is the manager's name of an event (26.8).
type EventType string

// The kernel events.
const (
	EventKernelPreparing   EventType = "kernel_preparing"
	EventKernelPulling     EventType = "kernel_pulling"
	EventKernelCreating    EventType = "kernel_creating"
	EventKernelStarted     EventType = "kernel_started"
	EventKernelTerminating EventType = "kernel_terminating"
	EventKernelTerminated  EventType = "kernel_terminated"
)

// EventSpec is the event.
type EventSpec struct {
	Type      EventType `json:"type"`
	KernelID  string    `json:"kernelID,omitempty"`
	SessionID string    `json:"sessionID,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	// Message explains Reason to a person; the manager does not get it.
	Message string `json:"message,omitempty"`
	// ExitCode is the main process's, or -1 when unknown.
	ExitCode *int      `json:"exitCode,omitempty"`
	At       time.Time `json:"at"`
	// Kernel is the state of the kernel for kernel_started.
	Kernel *KernelStatus `json:"kernel,omitempty"`
}

// EventStatus is empty: an event that was delivered is deleted.
type EventStatus struct{}
