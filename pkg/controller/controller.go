// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"agentd/pkg/apis"
)

// Result tells the controller when to look at the name again. Zero: when something changes.
type Result struct {
	// After asks for another pass after that time, or as soon as something changes.
	After time.Duration
	// Background marks a repeat that nobody waits for: Settle does not count it.
	Background bool
}

// Reconciler takes the next step for the object of that name. It gets no
// event: it reads what is wanted and what is there. An error brings a retry
// with growing distance, unless it is terminal (see [apis.Terminal]).
type Reconciler interface {
	Reconcile(ctx context.Context, name string) (Result, error)
}

// ReconcilerFunc is a function that is a Reconciler.
type ReconcilerFunc func(ctx context.Context, name string) (Result, error)

// Reconcile calls the function.
func (f ReconcilerFunc) Reconcile(ctx context.Context, name string) (Result, error) {
	return f(ctx, name)
}

// Options of a controller; the zero value is usable.
type Options struct {
	// Workers is how many names are worked on at once; 1 if not given.
	Workers int
	// MinBackoff and MaxBackoff bound the distance between retries; 200 ms and 30 s if not given.
	MinBackoff, MaxBackoff time.Duration
	// Timeout ends the context of a pass; 0 for none.
	Timeout time.Duration
	// Report is called after every failing pass, before its retry is set: it writes the condition.
	Report func(name string, err error)
	// Log receives failures, and is in the context of each pass with kind and name.
	Log logr.Logger
	// Metrics may be nil.
	Metrics *Metrics
}

// Controller calls a reconciler for the names of one kind: whenever something
// changes, when a retry is due, and never twice at once for one name.
//
// All its knowledge is in one queue under one lock. Workers take names from
// it; the goroutine that runs Run only moves names whose time has come. No
// timer runs while nothing is due, so that under simulated time a lost wake-up
// is a deadlock, not a slow pass.
type Controller struct {
	kind  apis.Kind
	r     Reconciler
	work  *Work
	opt   Options
	meter meter

	mu      sync.Mutex
	changed sync.Cond // something is ready, or ctx ended
	idle    int       // workers that wait
	q       queue
	rearm   chan struct{} // an earlier time became due
}

// New returns a controller that does nothing until Run. Names may be enqueued
// before that. Controllers that share w settle together; a nil w is allowed.
func New(kind apis.Kind, r Reconciler, w *Work, opt Options) *Controller {
	if w == nil {
		w = &Work{}
	}
	opt.Workers = max(1, opt.Workers)
	opt.MinBackoff = cmp.Or(opt.MinBackoff, 200*time.Millisecond)
	opt.MaxBackoff = max(opt.MinBackoff, cmp.Or(opt.MaxBackoff, 30*time.Second))
	c := &Controller{
		kind: kind, r: r, work: w, opt: opt,
		meter: opt.Metrics.meter(kind),
		q:     queue{minBackoff: opt.MinBackoff, maxBackoff: opt.MaxBackoff, items: map[string]*item{}},
		rearm: make(chan struct{}, 1),
	}
	c.changed.L = &c.mu
	w.join(c)
	return c
}

// Attach enqueues every name of the kind that changes in the store, or whose
// parts do, from now on.
func (c *Controller) Attach(s *Store) {
	s.subscribe(func(n notice) {
		if n.key.Kind == c.kind {
			c.wake(n.why, n.key.Name)
		}
	})
}

// Enqueue asks for a pass over each name. It never blocks.
func (c *Controller) Enqueue(names ...string) { c.wake(0, names...) }

func (c *Controller) wake(why change, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.q.opened
	for _, n := range names {
		c.q.wake(n, why)
	}
	c.settleBooks(before)
}

// settleBooks tells everybody what a change of the queue means for them: idle
// workers, the timer, Work and the metrics. c.mu is held.
func (c *Controller) settleBooks(before int) {
	if n := min(c.idle, c.q.waiting()); n == 1 {
		c.changed.Signal()
	} else if n > 1 {
		c.changed.Broadcast()
	}
	if c.q.earlier() {
		select {
		case c.rearm <- struct{}{}:
		default:
		}
	}
	c.work.add(c.q.opened - before)
	c.meter.depth(c.q.waiting())
}

// Run reconciles until ctx ends, and returns when its workers have. What is
// still open then stays open; Run may be called again.
func (c *Controller) Run(ctx context.Context) {
	ctx = logr.NewContext(ctx, c.opt.Log.WithValues("kind", c.kind))
	var workers sync.WaitGroup
	for range c.opt.Workers {
		workers.Go(func() { c.worker(ctx) })
	}
	for ctx.Err() == nil {
		c.waitDue(ctx)
	}
	c.mu.Lock() // no worker is between its look at ctx and its wait
	c.changed.Broadcast()
	c.mu.Unlock()
	workers.Wait()
}

// waitDue makes ready what is due, then sleeps until the next item is.
func (c *Controller) waitDue(ctx context.Context) {
	c.mu.Lock()
	before := c.q.opened
	next := c.q.promote(time.Now())
	c.settleBooks(before)
	c.mu.Unlock()
	var tick <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		tick = t.C
	}
	select {
	case <-ctx.Done():
	case <-tick:
	case <-c.rearm:
	}
}

func (c *Controller) worker(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		it := c.take(ctx)
		if it == nil {
			return
		}
		c.mu.Unlock()
		o := c.pass(ctx, it)
		c.mu.Lock()
		before := c.q.opened
		c.q.end(it, o, time.Now())
		c.settleBooks(before)
	}
}

// take waits for an item; nil when the controller stops.
func (c *Controller) take(ctx context.Context) *item {
	for ctx.Err() == nil {
		if it := c.q.begin(); it != nil {
			return it
		}
		c.idle++
		c.changed.Wait()
		c.idle--
	}
	return nil
}

// pass reconciles one name, and reports a failure.
func (c *Controller) pass(ctx context.Context, it *item) outcome {
	begin := time.Now()
	res, err := c.reconcile(ctx, it.name)
	o := outcome{result: res, err: err}
	if err == nil {
		c.meter.done(resultOf(o), time.Since(begin))
		return o
	}
	if ctx.Err() != nil {
		o.interrupted = true
		return o
	}
	_, o.terminal = apis.AsTerminal(err)
	c.meter.done(resultOf(o), time.Since(begin))
	c.report(it, o)
	return o
}

func (c *Controller) reconcile(ctx context.Context, name string) (res Result, err error) {
	defer catch(&err)
	if c.opt.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opt.Timeout)
		defer cancel()
	}
	if !c.opt.Log.IsZero() {
		ctx = logr.NewContext(ctx, logr.FromContextOrDiscard(ctx).WithValues("name", name))
	}
	return c.r.Reconcile(ctx, name)
}

// report logs a failure and has its condition written.
func (c *Controller) report(it *item, o outcome) {
	log := c.opt.Log.WithValues("kind", c.kind, "name", it.name)
	var p *PanicError
	switch {
	case errors.As(o.err, &p):
		log.Error(o.err, "reconciler panicked, will retry", "fails", it.fails+1, "stack", p.Stack)
	case o.terminal:
		log.Error(o.err, "reconcile failed for good")
	default:
		log.Error(o.err, "reconcile failed, will retry", "fails", it.fails+1)
	}
	if c.opt.Report == nil {
		return
	}
	var err error
	func() {
		defer catch(&err)
		c.opt.Report(it.name, o.err)
	}()
	if err != nil {
		log.Error(err, "the failure could not be reported")
	}
}

// PanicError is a panic of a reconciler, made an error.
type PanicError struct {
	Value any
	// Stack is where it happened; it is logged and not part of the text.
	Stack string
}

// Error returns the panic's value.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

func catch(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{Value: v, Stack: string(debug.Stack())}
	}
}

// Pending returns the names that are queued, running, or waiting for a retry
// or a poll that somebody waits for; sorted.
func (c *Controller) Pending() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for name, it := range c.q.items {
		if it.open() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
