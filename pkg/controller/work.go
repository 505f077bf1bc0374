// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"agentd/pkg/apis"
)

// Work counts the names that are queued, running, or waiting for a retry or a
// poll, over all controllers that share it. A name that changes an object of
// another kind is itself still counted while the other one is being enqueued,
// so the count cannot touch zero in between. The zero value is ready for use.
type Work struct {
	open atomic.Int64

	mu          sync.Mutex
	settled     chan struct{} // closed at zero; nil: nobody waits
	controllers []*Controller
}

func (w *Work) join(c *Controller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.controllers = append(w.controllers, c)
}

func (w *Work) add(n int) {
	if n == 0 || w.open.Add(int64(n)) != 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.settled != nil {
		close(w.settled)
		w.settled = nil
	}
}

// Settle waits until no controller has anything left to do; background polls
// do not count. It ends early with the cause of ctx.
func (w *Work) Settle(ctx context.Context) error {
	w.mu.Lock()
	if w.open.Load() == 0 {
		w.mu.Unlock()
		return nil
	}
	if w.settled == nil {
		w.settled = make(chan struct{})
	}
	settled := w.settled
	w.mu.Unlock()
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the controllers to settle: %w", context.Cause(ctx))
	}
}

// Open returns what Settle waits for, sorted.
func (w *Work) Open() []apis.Key {
	w.mu.Lock()
	controllers := slices.Clone(w.controllers)
	w.mu.Unlock()
	var out []apis.Key
	for _, c := range controllers {
		for _, n := range c.Pending() {
			out = append(out, apis.Key{Kind: c.kind, Name: n})
		}
	}
	slices.SortFunc(out, compareKeys)
	return out
}
