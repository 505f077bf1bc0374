// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"sync"

	"agentd/pkg/apis"
)

// notice tells of one key that a batch of commits concerns.
type notice struct {
	key apis.Key
	why change
}

// change tells what happened to an object; several things can at once.
type change uint8

const (
	changedSelf   change = 1 << iota // the object itself
	changedIntent                    // what is wanted of it: it is new, gone, to be deleted, or has another spec
	changedPart                      // an object that it owns or holds, or did
)

type subscription struct{ fn func(notice) }

// Subscribe makes the store call fn after each commit, outside its locks, with
// the key of every changed object, of its owner and of those who hold it (the
// old and the new ones). The committing caller does not get its answer before
// fn has returned, so fn must neither block nor commit.
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
	var told notices
	for _, w := range writes {
		told.add(w.key, w.why())
		for _, m := range [...]*apis.Meta{w.oldMeta, w.meta} {
			if m == nil {
				continue
			}
			if m.Owner != (apis.Key{}) {
				told.add(m.Owner, changedPart)
			}
		}
		for _, user := range w.users() { // who uses a thing wants to know what becomes of it
			if key, ok := apis.ParseKey(user); ok {
				told.add(key, changedPart)
			}
		}
	}
	subs := *s.subs.Load()
	for _, n := range told.list {
		if n.why&changedSelf != 0 {
			s.waiters.wake(n.key)
		}
		for _, sub := range subs {
			sub.fn(n)
		}
	}
}

func (w *write) why() change {
	if w.oldMeta == nil || w.meta == nil || w.oldMeta.Generation != w.meta.Generation || w.oldMeta.Deleting != w.meta.Deleting {
		return changedSelf | changedIntent
	}
	return changedSelf
}

// notices are one for each key, in the order of their first mention.
type notices struct {
	list []notice
	at   map[apis.Key]int // made when a search gets long
}

func (n *notices) add(key apis.Key, why change) {
	i, ok := n.at[key]
	if n.at == nil {
		i = slices.IndexFunc(n.list, func(x notice) bool { return x.key == key })
		ok = i >= 0
	}
	if ok {
		n.list[i].why |= why
		return
	}
	n.list = append(n.list, notice{key, why})
	switch {
	case n.at != nil:
		n.at[key] = len(n.list) - 1
	case len(n.list) == 2*searchLimit:
		n.at = make(map[apis.Key]int, 4*searchLimit)
		for i, x := range n.list {
			n.at[x.key] = i
		}
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

// users lists who has to hear of a change of the object: everybody who holds
// it, or, if nothing but the holds changed, those who came or went.
func (w write) users() []string {
	var before, now []string
	if w.oldMeta != nil {
		before = w.oldMeta.Holds
	}
	if w.meta != nil {
		now = w.meta.Holds
	}
	if !w.holdsOnly {
		return slices.Concat(before, now)
	}
	var out []string
	for len(before) > 0 && len(now) > 0 {
		switch {
		case before[0] == now[0]:
			before, now = before[1:], now[1:]
		case before[0] < now[0]:
			out, before = append(out, before[0]), before[1:]
		default:
			out, now = append(out, now[0]), now[1:]
		}
	}
	return append(append(out, before...), now...)
}
