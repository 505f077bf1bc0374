// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/netplan"
)

// Session computes what the kernels of a cluster share and sees to its network.
// It touches nothing but the store.
type Session struct {
	store    *controller.Store
	sessions controller.Reader[apis.ClusterSessionSpec, apis.ClusterSessionStatus]
	status   controller.StatusWriter[apis.ClusterSessionSpec, apis.ClusterSessionStatus]
	gone     controller.Deleter[apis.ClusterSessionSpec, apis.ClusterSessionStatus]
	kernels  controller.Reader[apis.KernelSpec, apis.KernelStatus]
	endings  controller.Deleter[apis.KernelSpec, apis.KernelStatus]
	networks controller.Reader[apis.NetworkSpec, apis.NetworkStatus]
	netSpec  controller.SpecWriter[apis.NetworkSpec, apis.NetworkStatus]
}

// NewSession returns the session reconciler.
func NewSession(s *controller.Store, t *controller.Tables) *Session {
	return &Session{
		store: s, sessions: t.Sessions.Reader(), status: t.Sessions.StatusWriter(), gone: t.Sessions.Deleter(),
		kernels: t.Kernels.Reader(), endings: t.Kernels.Deleter(),
		networks: t.Networks.Reader(), netSpec: t.Networks.SpecWriter(),
	}
}

// Reconcile takes one session one step further.
func (r *Session) Reconcile(_ context.Context, name string) (controller.Result, error) {
	s, ok := r.sessions.Get(name)
	if !ok {
		return controller.Result{}, nil
	}
	return controller.Result{}, r.store.Commit(func(tx *controller.Tx) error {
		left := r.kernelsLeft(tx, s)
		switch {
		case s.Deleting && len(left) > 0:
			for _, k := range left {
				r.endings.Delete(tx, k, s.DeleteReason, s.DeleteMessage)
			}
			return nil
		case s.Deleting:
			return r.finish(tx, s)
		case len(left) == 0: // a session without kernels has nothing to hold together
			r.gone.Delete(tx, name, "", "its last kernel is gone")
			return nil
		}
		return r.prepare(tx, s)
	})
}

func (r *Session) kernelsLeft(tx *controller.Tx, s *apis.ClusterSession) []string {
	var out []string
	for _, id := range s.Spec.Kernels {
		if r.kernels.HasIn(tx, id) {
			out = append(out, id)
		}
	}
	return out
}

// finish removes the session's own network, then lets the session go.
func (r *Session) finish(tx *controller.Tx, s *apis.ClusterSession) error {
	if n, ok := r.ownNetwork(tx, s); ok {
		r.netSpec.Delete(tx, n.Name, s.DeleteReason, "")
		return nil
	}
	return r.status.Observe(tx, s.Name, func(m *apis.Meta, _ *apis.ClusterSessionStatus) { m.DropFinalizer(controller.FinalizerSession) })
}

func (r *Session) ownNetwork(tx *controller.Tx, s *apis.ClusterSession) (*apis.Network, bool) {
	n, ok := r.networks.GetIn(tx, s.Spec.Network.Name)
	if !ok || n.Owner != r.sessions.Key(s.Name) {
		return nil, false
	}
	return n, true
}

// prepare sees to the network and writes the plan.
func (r *Session) prepare(tx *controller.Tx, s *apis.ClusterSession) error {
	hosts, err := netplan.Hosts(s.Spec.Replicas)
	if err != nil {
		return apis.Terminal(apis.ReasonInvalid, err)
	}
	ready := true
	if net := s.Spec.Network; net.Managed || net.Mode == apis.NetworkOverlay {
		spec := apis.NetworkSpec{Driver: string(net.Mode), External: !net.Managed, SessionID: s.Name}
		if err := r.netSpec.Apply(tx, controller.NetworkMeta(net.Name, r.sessions.Key(s.Name)), spec); err != nil {
			return err
		}
		n, ok := r.networks.GetIn(tx, net.Name)
		ready = ok && n.Status.Conditions.IsReady(n.Generation)
	}
	return r.status.Observe(tx, s.Name, func(m *apis.Meta, st *apis.ClusterSessionStatus) {
		st.Hosts = netplan.Names(hosts)
		if ready {
			st.Conditions.SetReady(m.Generation)
			return
		}
		st.Conditions.SetNotReady(m.Generation, apis.ReasonWaiting, "waiting for network "+s.Spec.Network.Name)
	})
}

// Report shows an error in the session's conditions.
func (r *Session) Report(name string, err error) {
	_ = r.store.Commit(func(tx *controller.Tx) error {
		return r.status.Observe(tx, name, func(m *apis.Meta, st *apis.ClusterSessionStatus) { setError(&st.Conditions, m, err) })
	})
}
