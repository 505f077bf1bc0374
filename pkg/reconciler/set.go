// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/runtime"
)

// Config is what a [Set] is made from.
type Config struct {
	Settings Settings
	Node     runtime.Node
	Ledger   *Ledger
	// Sink takes events to the manager; nil where there is none.
	Sink Sink
	// PullTimeout bounds an image pull; 0 for no bound.
	PullTimeout time.Duration
	// CreationWorkers is how many containers are created or started at a time (kernel-creation-concurrency).
	CreationWorkers int
	// SweepGrace is how long a thing must be unwanted before it is removed.
	SweepGrace time.Duration
	Facts      NodeFacts
	Log        logr.Logger
	Metrics    *controller.Metrics
}

// Set is every controller of an agent over one store and one node. The daemon,
// the one-shot repair, its dry run and the tests all run the same set.
type Set struct {
	Store  *controller.Store
	Tables *controller.Tables
	Work   *controller.Work
	Outbox *controller.Outbox
	Sweep  *Sweep

	controllers map[apis.Kind]*controller.Controller
}

// NewSet builds the controllers; nothing runs before [Set.Start].
func NewSet(s *controller.Store, t *controller.Tables, cfg Config) *Set {
	a := &Set{
		Store: s, Tables: t, Work: &controller.Work{}, Outbox: controller.NewOutbox(t),
		Sweep:       NewSweep(s, t, cfg.Node, cfg.SweepGrace, cfg.Settings.StopGrace),
		controllers: map[apis.Kind]*controller.Controller{},
	}
	fast := controller.Options{Workers: 8, MinBackoff: 200 * time.Millisecond, MaxBackoff: 30 * time.Second}
	add := func(kind apis.Kind, r interface {
		controller.Reconciler
		Report(string, error)
	}, workers int, opt controller.Options,
	) {
		opt.Workers, opt.Report, opt.Metrics = workers, r.Report, cfg.Metrics
		opt.Log = cfg.Log
		a.controllers[kind] = controller.New(kind, r, a.Work, opt)
		a.controllers[kind].Attach(s)
	}
	add(apis.KindClusterSession, NewSession(s, t), 8, fast)
	add(apis.KindKernel, NewKernel(s, t, cfg.Settings, a.Outbox, cfg.Node), 8, fast)
	add(apis.KindContainer, NewContainer(s, t, cfg.Node.Containers, cfg.Node.Logs, cfg.CreationWorkers), 32, fast)
	add(apis.KindImage, NewImage(s, t, cfg.Node.Images, cfg.PullTimeout), 2,
		controller.Options{MinBackoff: time.Second, MaxBackoff: 5 * time.Minute})
	add(apis.KindNetwork, NewNetwork(s, t, cfg.Node.Networks), 2, fast)
	add(apis.KindScratch, NewScratch(s, t, cfg.Node.Scratches), 4, fast)
	// One worker: the order of requests is the policy.
	add(apis.KindBinding, NewBinding(s, t, cfg.Ledger), 1,
		controller.Options{MinBackoff: 200 * time.Millisecond, MaxBackoff: 5 * time.Second})
	// One worker: the order of events is the promise.
	add(apis.KindEvent, NewEvent(s, t, cfg.Sink), 1,
		controller.Options{MinBackoff: 100 * time.Millisecond, MaxBackoff: 5 * time.Second})
	cfg.Facts.Allocated = cfg.Ledger.Allocated
	add(apis.KindNode, NewNode(s, t, cfg.Facts), 1,
		controller.Options{MinBackoff: time.Second, MaxBackoff: 30 * time.Second})
	return a
}

// Start queues every stored name and runs every controller. The returned
// function waits until all of them have stopped, which the end of ctx makes them do.
func (a *Set) Start(ctx context.Context) (wait func()) {
	for _, k := range a.Store.Keys() {
		a.Wake(k)
	}
	var wg sync.WaitGroup
	for _, c := range a.controllers {
		wg.Go(func() { c.Run(ctx) })
	}
	return wg.Wait
}

// Wake has the object of that key looked at.
func (a *Set) Wake(k apis.Key) {
	if c, ok := a.controllers[k.Kind]; ok {
		c.Enqueue(k.Name)
	}
}

// Seen takes in a complete listing of the node's containers.
func (a *Set) Seen(listed []runtime.ContainerState) error {
	names, err := Differing(a.Store, a.Tables, listed)
	if err != nil {
		return err
	}
	a.controllers[apis.KindContainer].Enqueue(names...)
	return nil
}
