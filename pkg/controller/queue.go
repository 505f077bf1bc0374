// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// place is where a name is in its queue. A name that is in none has no item.
type place uint8

const (
	ready   place = iota // waits for a worker
	running              // a worker has it
	polling              // succeeded, and asked to be looked at again
	backing              // failed, waits for its retry
)

// item is one name in a queue.
type item struct {
	name       string
	place      place
	background bool // polling, and nobody waits for it

	// While running: what happened meanwhile. Changes of the object itself may
	// be the pass's own; those of the intent are not, nor are other wake-ups.
	selfChanged, newIntent, woken bool

	fails    int // in a row
	spins    int // successes in a row, each repeated only because the object itself changed meanwhile
	failedAt time.Time
	due      time.Time // polling and backing
	heapPos  int       // polling and backing
}

// open tells whether Settle waits for the item.
func (it *item) open() bool { return it.place != polling || !it.background }

// queue decides what runs when. It is pure bookkeeping: no clock, no
// goroutine, no lock.
type queue struct {
	minBackoff, maxBackoff time.Duration

	items  map[string]*item
	ready  []*item // first in, first out, from next on
	next   int
	timed  timedItems // polling and backing, the earliest first
	opened int        // items that Settle waits for
	armed  time.Time  // what promote answered last
}

// outcome is what a pass came to.
type outcome struct {
	result      Result
	err         error
	terminal    bool
	interrupted bool // the controller is stopping: the pass does not count
}

// wake asks for a pass over name, and says why; 0 is anything but a change in the store.
func (q *queue) wake(name string, why change) {
	it := q.items[name]
	if it == nil {
		it = &item{name: name}
		q.items[name] = it
		q.opened++
		q.push(it)
		return
	}
	if why&changedIntent != 0 && it.place != running {
		it.fails = 0 // the failures were about something else
	}
	switch it.place {
	case ready:
	case running:
		it.newIntent = it.newIntent || why&changedIntent != 0
		if why&^changedIntent == changedSelf {
			it.selfChanged = true
		} else {
			it.woken = true
		}
	case polling:
		q.untime(it)
		q.push(it)
	case backing:
		if why&changedIntent != 0 {
			q.untime(it)
			q.push(it)
			return
		}
		// The retry comes forward, but no sooner after the failure than the
		// first retry would: not even two objects that wake each other spin.
		if early := it.failedAt.Add(q.minBackoff); early.Before(it.due) {
			it.due = early
			heap.Fix(&q.timed, it.heapPos)
		}
	}
}

// maxSpins is after how many repeats a reconciler that changes its own object
// in every single pass is slowed down. An honest one needs two or three.
const maxSpins = 16

// begin takes the next item to run, or nil.
func (q *queue) begin() *item {
	if q.next == len(q.ready) {
		return nil
	}
	it := q.ready[q.next]
	q.ready[q.next] = nil
	q.next++
	if q.next == len(q.ready) {
		q.ready, q.next = q.ready[:0], 0
	}
	it.place = running
	it.selfChanged, it.newIntent, it.woken = false, false, false
	return it
}

// end files a running item by the outcome of its pass.
//
// A pass that failed is not repeated at once for changes of its own object:
// the pass or its report made them, most likely, and repeating would spin. A
// new intent is the exception, since nobody but the object's owners changes it.
func (q *queue) end(it *item, o outcome, now time.Time) {
	switch {
	case o.interrupted:
		q.push(it)
	case o.err == nil:
		it.fails = 0
		switch {
		case it.woken || it.newIntent:
			it.spins = 0
			q.push(it)
		case it.selfChanged && it.spins < maxSpins:
			it.spins++
			q.push(it)
		case it.selfChanged:
			it.failedAt = now
			q.time(it, backing, false, now.Add(q.minBackoff))
		case o.result.After > 0:
			it.spins = 0
			q.time(it, polling, o.result.Background, now.Add(o.result.After))
		default:
			q.forget(it)
		}
	case it.newIntent:
		it.fails = 0
		q.push(it)
	case o.terminal:
		it.fails = 0
		if !it.woken {
			q.forget(it)
			return
		}
		it.failedAt = now
		q.time(it, backing, false, now.Add(q.minBackoff))
	default:
		it.fails++
		it.failedAt = now
		wait := q.backoff(it.fails)
		if it.woken {
			wait = min(wait, q.minBackoff)
		}
		q.time(it, backing, false, now.Add(wait))
	}
}

// backoff doubles with every failure, give or take a tenth.
func (q *queue) backoff(fails int) time.Duration {
	d := q.maxBackoff
	if shift := fails - 1; shift < 32 && q.minBackoff<<shift>>shift == q.minBackoff {
		d = min(d, q.minBackoff<<shift)
	}
	return d - d/10 + rand.N(d/5+1)
}

// promote makes everything ready that is due, and returns when the next item
// will be; zero when there is none.
func (q *queue) promote(now time.Time) time.Time {
	for len(q.timed) > 0 {
		it := q.timed[0]
		if it.due.After(now) {
			q.armed = it.due
			return it.due
		}
		q.untime(it)
		q.push(it)
	}
	q.armed = time.Time{}
	return q.armed
}

// earlier tells that something became due earlier than promote answered.
func (q *queue) earlier() bool {
	return len(q.timed) > 0 && (q.armed.IsZero() || q.timed[0].due.Before(q.armed))
}

func (q *queue) push(it *item) {
	it.place, it.background = ready, false
	if q.next > 1024 && q.next > len(q.ready)/2 { // let go of what has run
		n := copy(q.ready, q.ready[q.next:])
		clear(q.ready[n:])
		q.ready, q.next = q.ready[:n], 0
	}
	q.ready = append(q.ready, it)
}

func (q *queue) waiting() int { return len(q.ready) - q.next }

func (q *queue) forget(it *item) {
	delete(q.items, it.name)
	q.opened--
}

// time and untime keep opened right: background polls are not counted.
func (q *queue) time(it *item, p place, background bool, due time.Time) {
	it.place, it.background, it.due = p, background, due
	if background {
		q.opened--
	}
	heap.Push(&q.timed, it)
}

func (q *queue) untime(it *item) {
	heap.Remove(&q.timed, it.heapPos)
	if it.background {
		q.opened++
	}
}

// timedItems is a heap by due time.
type timedItems []*item

func (h timedItems) Len() int           { return len(h) }
func (h timedItems) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h timedItems) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapPos, h[j].heapPos = i, j
}

// Push implements heap.Interface.
func (h *timedItems) Push(x any) {
	it := x.(*item) //nolint:forcetypeassert,errcheck // only items are pushed
	it.heapPos = len(*h)
	*h = append(*h, it)
}

// Pop implements heap.Interface.
func (h *timedItems) Pop() any {
	l := *h
	it := l[len(l)-1]
	l[len(l)-1] = nil
	*h = l[:len(l)-1]
	return it
}
