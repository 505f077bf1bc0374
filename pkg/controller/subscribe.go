// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"sync"

	"agentd/pkg/apis"
)

// notice tells of one key that a batch of commits concerns.
type notice struct {
	key  apis.Key
	self bool // the object itself changed
	part bool // an object that it owns or owned, or that it holds, changed
}

type subscription struct{ fn func(notice) }

// Subscribe makes the store call fn after each commit, outside its locks, with
// the key of every changed object, of its owner (the old and the new one), and of
// the objects that hold it.
// The committing caller does not get its answer before fn has returned, so fn
// must neither block nor commit.
func (s *Store) Subscribe(fn func(apis.Key)) (cancel func()) {
	return s.subscribe(func(n notice) { fn(n.key) })
}

func (s *Store) subscribe(fn func(notice)) (cancel func()) {
	sub := &subscription{fn}
	s.editSubs(func(l []*subscription) []*subscription { return append(l, sub) })
	return func() {
		s.editSubs(func(l []*subscription) []*subscription {
			return slices.DeleteFunc(l, func(x *subscription) bool { return x == sub })
		})
	}
}

// editSubs replaces the list, so that notify can read it without a lock.
func (s *Store) editSubs(fn func([]*subscription) []*subscription) {
	s.subMu.Lock()
	defer s.subMu.Unlock()
	l := fn(slices.Clone(*s.subs.Load()))
	s.subs.Store(&l)
}

// notify wakes waiters and subscribers for what the writes changed.
func (s *Store) notify(writes []write) {
	var notices []notice
	note := func(n notice) {
		// Commits are small: a search beats a map.
		for i := range notices {
			if notices[i].key == n.key {
				notices[i].self = notices[i].self || n.self
				notices[i].part = notices[i].part || n.part
				return
			}
		}
		notices = append(notices, n)
	}
	if len(writes) > 32 {
		note = indexedNote(&notices)
	}
	for _, w := range writes {
		note(notice{key: w.key, self: true})
		for _, m := range [...]*apis.Meta{w.oldMeta, w.meta} {
			if m == nil {
				continue
			}
			if m.Owner != (apis.Key{}) {
				note(notice{key: m.Owner, part: true})
			}
			for _, user := range m.Holds { // who uses a thing wants to know what becomes of it
				if key, ok := apis.ParseKey(user); ok {
					note(notice{key: key, part: true})
				}
			}
		}
	}
	subs := *s.subs.Load()
	for _, n := range notices {
		if n.self {
			s.waiters.wake(n.key)
		}
		for _, sub := range subs {
			sub.fn(n)
		}
	}
}

// indexedNote is for large batches, such as the sweep of a whole node.
func indexedNote(notices *[]notice) func(notice) {
	at := map[apis.Key]int{}
	return func(n notice) {
		i, ok := at[n.key]
		if !ok {
			at[n.key] = len(*notices)
			*notices = append(*notices, n)
			return
		}
		(*notices)[i].self = (*notices)[i].self || n.self
		(*notices)[i].part = (*notices)[i].part || n.part
	}
}

// waiters are those who wait for one object, by its key: a commit wakes only
// who waits for what it changed.
type waiters struct {
	mu    sync.Mutex
	byKey map[apis.Key][]*waiter
}

type waiter struct{ woken chan struct{} }

func (w *waiters) add(key apis.Key) *waiter {
	x := &waiter{make(chan struct{}, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byKey[key] = append(w.byKey[key], x)
	return x
}

func (w *waiters) remove(key apis.Key, x *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := slices.DeleteFunc(w.byKey[key], func(y *waiter) bool { return x == y })
	if len(l) == 0 {
		delete(w.byKey, key)
		return
	}
	w.byKey[key] = l
}

func (w *waiters) wake(key apis.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.byKey[key] {
		select {
		case x.woken <- struct{}{}:
		default: // already told
		}
	}
}
