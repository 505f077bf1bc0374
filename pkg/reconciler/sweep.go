// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"fmt"
	"sync"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/runtime"
)

// LeftAlone is the label of a Container object whose container nothing wants,
// and which stays until an operator asks for a sweep; its value says why.
const LeftAlone = "agentd/left-alone"

// Sweep finds what the node has and the store does not want. Each thing becomes
// an object without owner that is being deleted, so that its removal, its
// retries and its logging are the ordinary ones.
type Sweep struct {
	// Grace is how long a thing must be unwanted before it is removed.
	Grace time.Duration

	store      *controller.Store
	containers controller.Reader[apis.ContainerSpec, apis.ContainerStatus]
	contSpec   controller.SpecWriter[apis.ContainerSpec, apis.ContainerStatus]
	networks   controller.Reader[apis.NetworkSpec, apis.NetworkStatus]
	netSpec    controller.SpecWriter[apis.NetworkSpec, apis.NetworkStatus]
	scratches  controller.Reader[apis.ScratchSpec, apis.ScratchStatus]
	scratchSp  controller.SpecWriter[apis.ScratchSpec, apis.ScratchStatus]
	kernels    controller.Reader[apis.KernelSpec, apis.KernelStatus]
	node       runtime.Node
	stopGrace  time.Duration

	mu      sync.Mutex
	allowed bool
	first   map[apis.Key]time.Time
}

// NewSweep returns a sweep that removes nothing before [Sweep.Allow].
func NewSweep(s *controller.Store, t *controller.Tables, node runtime.Node, grace, stopGrace time.Duration) *Sweep {
	return &Sweep{
		Grace: grace, store: s, node: node, stopGrace: stopGrace, first: map[apis.Key]time.Time{},
		containers: t.Containers.Reader(), contSpec: t.Containers.SpecWriter(),
		networks: t.Networks.Reader(), netSpec: t.Networks.SpecWriter(),
		scratches: t.Scratches.Reader(), scratchSp: t.Scratches.SpecWriter(), kernels: t.Kernels.Reader(),
	}
}

// Allow opens the gate. The caller knows that every wanted thing is in the
// store: the checkpoint was complete and every name had one pass.
func (s *Sweep) Allow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = true
}

// Run looks at the node once, given a complete listing of its containers. It
// returns what nothing wants and has not been handed over for removal.
func (s *Sweep) Run(ctx context.Context, listed []runtime.ContainerState) ([]apis.Key, error) {
	nets, err := s.node.Networks.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing networks: %w", err)
	}
	dirs, err := s.node.Scratches.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing scratches: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[apis.Key]bool{}
	var left []apis.Key
	err = s.store.Commit(func(tx *controller.Tx) error {
		left = nil
		for _, x := range s.unwanted(tx, listed, nets, dirs) {
			seen[x.key] = true
			if !s.due(x.key) {
				left = append(left, x.key)
				continue
			}
			if err := x.drop(tx); err != nil {
				return err
			}
		}
		return nil
	})
	for k := range s.first { // wanted again, or gone: its time starts anew
		if !seen[k] {
			delete(s.first, k)
		}
	}
	return left, err
}

// due tells that the gate is open and that the thing has been unwanted for long enough.
func (s *Sweep) due(k apis.Key) bool {
	t, ok := s.first[k]
	if !ok {
		t = time.Now()
		s.first[k] = t
	}
	return s.allowed && time.Since(t) >= s.Grace
}

// stray is a thing that nothing wants, and how to turn it into an object to be deleted.
type stray struct {
	key  apis.Key
	drop func(*controller.Tx) error
}

// unwanted lists the strays, users before what they use.
func (s *Sweep) unwanted(tx *controller.Tx, listed []runtime.ContainerState, nets []runtime.NetworkState, dirs []string) []stray {
	var out []stray
	present := map[string]bool{}
	for _, c := range listed {
		present[c.KernelID] = true
		name := c.KernelID
		if o, ok := s.containers.GetIn(tx, name); ok {
			if o.Spec.EngineName == c.EngineName {
				continue
			}
			name = c.EngineName // a second container of one kernel
			if s.containers.HasIn(tx, name) {
				continue
			}
		} else if s.kernels.HasIn(tx, name) {
			continue // its Container object is about to be written
		}
		if name == "" {
			name = c.EngineName
		}
		spec := apis.ContainerSpec{EngineName: c.EngineName, Incarnation: c.Incarnation, Image: c.Image, StopGrace: s.stopGrace}
		out = append(out, stray{apis.Key{Kind: apis.KindContainer, Name: name}, func(tx *controller.Tx) error {
			err := s.contSpec.Apply(tx, apis.Meta{Name: name, Finalizers: []string{finContainer}}, spec)
			s.contSpec.Delete(tx, name, apis.ReasonUnknownContainer, "no object wants it")
			return err
		}})
	}
	for _, d := range dirs {
		if present[d] || s.scratches.HasIn(tx, d) || s.kernels.HasIn(tx, d) || s.containers.HasIn(tx, d) {
			continue
		}
		out = append(out, stray{apis.Key{Kind: apis.KindScratch, Name: d}, func(tx *controller.Tx) error {
			err := s.scratchSp.Apply(tx, apis.Meta{Name: d, Finalizers: []string{finScratch}}, apis.ScratchSpec{})
			s.scratchSp.Delete(tx, d, "", "no object wants it")
			return err
		}})
	}
	for _, n := range nets {
		if n.Endpoints > 0 || s.networks.HasIn(tx, n.Name) {
			continue
		}
		spec := apis.NetworkSpec{Driver: n.Driver, SessionID: n.SessionID}
		out = append(out, stray{apis.Key{Kind: apis.KindNetwork, Name: n.Name}, func(tx *controller.Tx) error {
			err := s.netSpec.Apply(tx, controller.NetworkMeta(n.Name, apis.Key{}), spec)
			s.netSpec.Delete(tx, n.Name, "", "no object wants it")
			return err
		}})
	}
	return out
}

// ReleaseLeftAlone hands over for removal what an earlier start left alone: an
// operator asked for it.
func (s *Sweep) ReleaseLeftAlone() error {
	return s.store.Commit(func(tx *controller.Tx) error {
		for _, name := range s.containers.Names() {
			c, ok := s.containers.GetIn(tx, name)
			if !ok || c.Labels[LeftAlone] == "" {
				continue
			}
			meta := apis.Meta{Name: name, Labels: map[string]string{}}
			if err := s.contSpec.Apply(tx, meta, c.Spec); err != nil {
				return err
			}
			s.contSpec.Delete(tx, name, apis.ReasonUnknownContainer, "no object wants it")
		}
		return nil
	})
}
