// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"sync"
)

// nameLocks serialises work on one name; different names do not wait for each other.
type nameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock
}

type nameLock struct {
	token   chan struct{}
	waiting int
}

// lock returns the function that lets go, or the context's error.
func (l *nameLocks) lock(ctx context.Context, name string) (unlock func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*nameLock{}
	}
	n := l.held[name]
	if n == nil {
		n = &nameLock{token: make(chan struct{}, 1)}
		l.held[name] = n
	}
	n.waiting++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n.waiting--; n.waiting == 0 {
			delete(l.held, name)
		}
	}
	select {
	case n.token <- struct{}{}:
		return func() { <-n.token; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
