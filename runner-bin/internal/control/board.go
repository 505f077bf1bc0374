// SPDX-License-Identifier: Apache-2.0

// Package control is the runner's end of the socket that it shares with the agent.
package control

import (
	"slices"
	"sync"

	"agentd/pkg/apis/record"
)

// maxWarnings bounds the remarks that a status carries.
const maxWarnings = 16

// Board holds the runner's status and tells watchers when it changed. It is safe for concurrent use.
type Board struct {
	mu      sync.Mutex
	status  record.StatusPayload
	changed chan struct{}
}

// NewBoard returns a board that shows the status.
func NewBoard(status record.StatusPayload) *Board {
	return &Board{status: status, changed: make(chan struct{})}
}

// Update changes the status and wakes every watcher.
func (b *Board) Update(change func(*record.StatusPayload)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.status)
	close(b.changed)
	b.changed = make(chan struct{})
}

// Warn adds a remark to the status; beyond a handful, later ones are dropped.
func (b *Board) Warn(text string) {
	b.Update(func(s *record.StatusPayload) {
		if len(s.Warnings) < maxWarnings {
			s.Warnings = append(s.Warnings, text)
		}
	})
}

// Read returns the status and a channel that is closed at the next change.
func (b *Board) Read() (record.StatusPayload, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	status := b.status
	status.Warnings = slices.Clone(status.Warnings)
	return status, b.changed
}
