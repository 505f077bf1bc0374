// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// nodeBeat is how often the node is looked at.
const nodeBeat = 3 * time.Second

// NodeFacts are what the node reconciler cannot read from the store.
type NodeFacts struct {
	// Capacity and Reserved are amounts by slot name.
	Capacity, Reserved map[string]string
	// Clamped says which limits had to be lowered, for people; empty if none.
	Clamped string
	// Engine returns the engine's version and API, empty while it is unknown.
	Engine func() (version, api string)
	Health *Health
	// Stays lists what nothing wants and what is not removed.
	Stays func() []string
	// Allocated sums what is held, by slot name.
	Allocated func(tx *controller.Tx) map[string]string
}

// Node keeps the node's own status up to date.
type Node struct {
	store   *controller.Store
	facts   NodeFacts
	nodes   controller.Reader[apis.NodeSpec, apis.NodeStatus]
	status  controller.StatusWriter[apis.NodeSpec, apis.NodeStatus]
	kernels controller.Reader[apis.KernelSpec, apis.KernelStatus]
	events  controller.Reader[apis.EventSpec, apis.EventStatus]
}

// NewNode returns the node reconciler.
func NewNode(s *controller.Store, t *controller.Tables, facts NodeFacts) *Node {
	return &Node{
		store: s, facts: facts, nodes: t.Nodes.Reader(), status: t.Nodes.StatusWriter(),
		kernels: t.Kernels.Reader(), events: t.Events.Reader(),
	}
}

// Reconcile writes what is seen of the node.
func (r *Node) Reconcile(_ context.Context, name string) (controller.Result, error) {
	n, ok := r.nodes.Get(name)
	if !ok {
		return controller.Result{}, nil
	}
	err := r.store.Commit(func(tx *controller.Tx) error {
		phases := map[string]int{}
		r.kernels.Range(tx, func(k *apis.Kernel) bool {
			phases[string(k.Status.Phase)]++
			return true
		})
		return r.status.Observe(tx, name, func(m *apis.Meta, st *apis.NodeStatus) {
			st.Kernels = phases
			st.Capacity, st.Reserved, st.Allocated = r.facts.Capacity, r.facts.Reserved, r.facts.Allocated(tx)
			st.EngineVersion, st.EngineAPI = r.facts.Engine()
			st.Leftovers = r.facts.Stays()
			if !n.Spec.StandAlone {
				st.PendingEvents = r.events.Len()
			}
			r.conditions(m, n, st)
		})
	})
	return controller.Result{After: nodeBeat, Background: true}, err
}

func (r *Node) conditions(m *apis.Meta, n *apis.Node, st *apis.NodeStatus) {
	c := &st.Conditions
	if err, known := r.facts.Health.Get(); known {
		x := apis.Condition{Type: apis.EngineReachable, Status: err == nil, Reason: "Answers"}
		if err != nil {
			x.Reason, x.Message = "NoAnswer", err.Error()
		}
		c.Set(x)
		if err == nil {
			c.SetReady(m.Generation)
		} else {
			c.SetNotReady(m.Generation, "EngineUnreachable", err.Error())
		}
	}
	switch {
	case n.Spec.StandAlone:
		c.Set(apis.Condition{Type: apis.EventsDelivered, Status: true, Reason: "NoManager", Message: "events are kept on this node"})
	case st.PendingEvents > 0:
		c.Set(apis.Condition{Type: apis.EventsDelivered, Reason: "Pending", Message: fmt.Sprintf("%d events wait for the manager", st.PendingEvents)})
	default:
		c.Set(apis.Condition{Type: apis.EventsDelivered, Status: true, Reason: "Delivered"})
	}
	if r.facts.Clamped != "" {
		c.Set(apis.Condition{Type: apis.LimitsClamped, Status: true, Reason: "HostLimits", Message: r.facts.Clamped})
	} else {
		c.Drop(apis.LimitsClamped)
	}
	if len(st.Leftovers) > 0 {
		c.Set(apis.Condition{
			Type: apis.Leftovers, Status: true, Reason: "LeftAlone",
			Message: "nothing wants " + strings.Join(st.Leftovers, ", ") + "; remove it with \"agentd reconcile --once --sweep\" while the daemon is stopped",
		})
	} else {
		c.Drop(apis.Leftovers)
	}
}

// Report shows an error in the node's conditions.
func (r *Node) Report(name string, err error) {
	_ = r.store.Commit(func(tx *controller.Tx) error {
		return r.status.Observe(tx, name, func(m *apis.Meta, st *apis.NodeStatus) { setError(&st.Conditions, m, err) })
	})
}
