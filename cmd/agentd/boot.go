// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/reconciler"
	"agentd/pkg/runtime"
)

// boot takes in the first listings of a node whose state may be incomplete: it
// adopts what it can, and opens the sweep's gate only when nothing is in doubt.
type boot struct {
	set     *reconciler.Set
	node    runtime.Node
	agentID string
	log     logr.Logger

	mu    sync.Mutex
	stays []string
}

// declareNode writes the Node object. A store that did not come from an intact
// checkpoint is marked incomplete, on disk, until the node has been looked at.
func (b *boot) declareNode(spec apis.NodeSpec, intact bool) error {
	t := b.set.Tables
	return b.set.Store.Commit(func(tx *controller.Tx) error {
		_, known := t.Nodes.Reader().GetIn(tx, b.agentID)
		if err := t.Nodes.SpecWriter().Apply(tx, apis.Meta{Name: b.agentID}, spec); err != nil {
			return err
		}
		if intact && known {
			return nil
		}
		return b.setComplete(tx, false, "CheckpointLost", "the node has not been compared with what agentd knows yet")
	})
}

func (b *boot) setComplete(tx *controller.Tx, ok bool, reason, message string) error {
	return b.set.Tables.Nodes.StatusWriter().Observe(tx, b.agentID, func(_ *apis.Meta, st *apis.NodeStatus) {
		st.Conditions.Set(apis.Condition{Type: apis.StateComplete, Status: ok, Reason: reason, Message: message})
	})
}

// complete tells whether everything that is wanted is known.
func (b *boot) complete() bool {
	n, ok := b.set.Tables.Nodes.Reader().Get(b.agentID)
	if !ok {
		return false
	}
	c, _ := n.Status.Conditions.Get(apis.StateComplete)
	return c.Status
}

// seen takes in a complete listing of the node's containers.
func (b *boot) seen(ctx context.Context, listed []runtime.ContainerState) error {
	if !b.complete() {
		if err := b.adopt(ctx, listed); err != nil {
			return err
		}
	}
	if err := b.set.Seen(listed); err != nil {
		return err
	}
	left, err := b.set.Sweep.Run(ctx, listed)
	if err != nil {
		return err
	}
	b.note(left)
	return nil
}

// adopt builds what is unknown again; with nothing left in doubt the state is complete.
func (b *boot) adopt(ctx context.Context, listed []runtime.ContainerState) error {
	rep, err := reconciler.Adopt(ctx, b.set.Store, b.set.Tables, b.node, listed)
	if err != nil {
		return err
	}
	for _, k := range rep.Adopted {
		b.log.Info("adopted a running kernel from its scratch", "kernel", k)
	}
	for name, why := range rep.LeftAlone {
		b.log.Info("leaving a container alone that cannot be adopted", "container", name, "why", why)
	}
	left, err := b.set.Sweep.Run(ctx, listed)
	if err != nil {
		return err
	}
	b.note(left)
	ok, reason, message := true, "Known", ""
	if n := len(b.leftovers()); n > 0 {
		ok, reason = false, "CheckpointLost"
		message = fmt.Sprintf("%d things on this node could not be recognised; nothing is swept", n)
	}
	return b.set.Store.Commit(func(tx *controller.Tx) error { return b.setComplete(tx, ok, reason, message) })
}

// note remembers what nothing wants.
func (b *boot) note(left []apis.Key) {
	var names []string
	for _, k := range left {
		names = append(names, k.String())
	}
	for _, c := range b.set.Tables.Containers.Reader().List() {
		if c.Labels[reconciler.LeftAlone] != "" {
			names = append(names, "container/"+c.Spec.EngineName)
		}
	}
	slices.Sort(names)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stays = slices.Compact(names)
}

// leftovers lists what nothing wants and what is still there.
func (b *boot) leftovers() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.stays)
}
