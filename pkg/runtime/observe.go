// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	defaultInterval  = 10 * time.Second
	defaultListLimit = 30 * time.Second
	defaultIdleLimit = 2 * time.Minute
	// overlap is how far a new subscription reaches back behind the last event:
	// clocks and delivery are not exact, and an event seen twice does no harm.
	overlap = time.Second
	// A broken subscription is renewed after pauses that grow from minPause to maxPause.
	minPause = 100 * time.Millisecond
	maxPause = time.Second
)

// Observer keeps reconcilers informed about the engine's containers. Events
// are hints that only wake; what is true comes from listings, which follow
// every new subscription and every interval. So nothing is missed for longer
// than an interval, whatever happens to the event stream. It is made by
// [NewObserver]; the other fields are set before Run.
type Observer struct {
	Containers Containers
	Watcher    Watcher

	// Interval is the time between listings; 0 is 10 s.
	Interval time.Duration
	// ListLimit bounds one listing; 0 is 30 s.
	ListLimit time.Duration
	// IdleLimit is how long a subscription may stay silent before it is
	// renewed, for it may be dead without knowing; 0 is two minutes.
	IdleLimit time.Duration

	// Wake is called with the kernel ID of every event, possibly while Seen
	// runs. Seen is called with every complete listing, one at a time; a
	// listing that failed is never shown. Either may be nil.
	Wake func(kernelID string)
	Seen func([]ContainerState)
	// Report is called when observing begins to fail, when it fails in another
	// way, and with nil once all of it works, the first time included. It may be nil.
	Report func(error)

	relist chan struct{}

	mu sync.Mutex
	// bad is what is wrong now, by part.
	bad map[string]string
}

// The parts of observing that fail on their own.
const (
	partListing = "listing"
	partEvents  = "events"
)

// NewObserver returns an observer of the containers.
func NewObserver(containers Containers, watcher Watcher) *Observer {
	return &Observer{
		Containers: containers, Watcher: watcher, relist: make(chan struct{}, 1),
		bad: map[string]string{partListing: "has not begun", partEvents: "has not begun"},
	}
}

// Relist asks for a listing as soon as possible. It never blocks; several
// requests at once are one.
func (o *Observer) Relist() {
	select {
	case o.relist <- struct{}{}:
	default:
	}
}

// Run observes until ctx ends and returns its error. The first listing comes
// once the first subscription stands, or could not be had.
func (o *Observer) Run(ctx context.Context) error {
	if o.relist == nil {
		return errors.New("observer was not made by NewObserver")
	}
	var events sync.WaitGroup
	events.Go(func() { o.watch(ctx) })
	defer events.Wait()

	interval := cmp.Or(o.Interval, defaultInterval)
	next := time.NewTimer(interval)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.relist:
		case <-next.C:
		}
		o.list(ctx)
		next.Reset(interval)
	}
}

// list shows one complete listing. One that failed changes nothing.
func (o *Observer) list(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(o.ListLimit, defaultListLimit))
	defer cancel()
	states, err := o.Containers.List(limited)
	if ctx.Err() != nil {
		return
	}
	if err == nil && o.Seen != nil {
		o.Seen(states)
	}
	o.note(partListing, err)
}

// watch keeps a subscription until ctx ends.
func (o *Observer) watch(ctx context.Context) {
	last, pause := time.Now(), minPause
	for first := true; ctx.Err() == nil; first = false {
		began := time.Now()
		stood, idle, err := o.subscription(ctx, &last)
		if ctx.Err() != nil {
			return
		}
		o.note(partEvents, err)
		if idle {
			continue
		}
		if first && !stood {
			o.Relist() // there is no subscription to wait for
		}
		// One that held for a while was sound; one that ends at once must not
		// be renewed in a tight loop.
		if time.Since(began) > maxPause {
			pause = minPause
		}
		timer := time.NewTimer(pause + rand.N(pause/4))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, maxPause)
	}
}

// subscription runs one and reports whether it ever stood and whether it ended
// for being silent. last becomes the time of its latest event.
func (o *Observer) subscription(ctx context.Context, last *time.Time) (stood, idle bool, err error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := cmp.Or(o.IdleLimit, defaultIdleLimit)
	silence := time.AfterFunc(limit, cancel)
	defer silence.Stop()
	err = o.Watcher.Watch(inner, last.Add(-overlap),
		func() {
			stood = true
			o.note(partEvents, nil)
			// The listing must come after: what happens from here on is an event.
			o.Relist()
		},
		func(ev Event) {
			silence.Reset(limit)
			if ev.At.After(*last) {
				*last = ev.At
			}
			if o.Wake != nil {
				o.Wake(ev.KernelID)
			}
		})
	if inner.Err() != nil && ctx.Err() == nil {
		return stood, true, nil
	}
	if err != nil {
		return stood, false, fmt.Errorf("container events: %w", err)
	}
	return stood, false, nil
}

// note reports changes only: an engine that is down for an hour is one line.
func (o *Observer) note(part string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before, wasBad := o.bad[part]
	switch {
	case err == nil && !wasBad, err != nil && before == err.Error():
		return
	case err == nil:
		if delete(o.bad, part); len(o.bad) > 0 {
			return
		}
	default:
		o.bad[part] = err.Error()
	}
	if o.Report != nil {
		o.Report(err)
	}
}
