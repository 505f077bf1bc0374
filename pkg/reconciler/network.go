// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/runtime"
)

// networkCheck is how often an idle network is looked at again.
const networkCheck = time.Minute

// Network makes engine networks exist, and removes those that nothing uses any more.
type Network struct {
	store    *controller.Store
	networks controller.Reader[apis.NetworkSpec, apis.NetworkStatus]
	status   controller.StatusWriter[apis.NetworkSpec, apis.NetworkStatus]
	gone     controller.Deleter[apis.NetworkSpec, apis.NetworkStatus]
	sessions controller.Reader[apis.ClusterSessionSpec, apis.ClusterSessionStatus]
	node     runtime.Networks
}

// NewNetwork returns the network reconciler.
func NewNetwork(s *controller.Store, t *controller.Tables, node runtime.Networks) *Network {
	return &Network{
		store: s, networks: t.Networks.Reader(), status: t.Networks.StatusWriter(), gone: t.Networks.Deleter(),
		sessions: t.Sessions.Reader(), node: node,
	}
}

// Reconcile takes one network one step further.
func (r *Network) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	n, ok := r.networks.Get(name)
	if !ok {
		return controller.Result{}, nil
	}
	if n.Deleting {
		return controller.Result{}, r.remove(ctx, n)
	}
	if n.Owner.Kind == apis.KindClusterSession {
		if _, ok := r.sessions.Get(n.Owner.Name); !ok { // the backstop
			return controller.Result{}, r.store.Commit(func(tx *controller.Tx) error {
				r.gone.Delete(tx, name, "", "its session is gone")
				return nil
			})
		}
	}
	id, err := r.node.Ensure(ctx, name, n.Spec)
	if err != nil {
		err = fmt.Errorf("network %s: %w", name, err)
		if errors.Is(err, apis.ErrConflict) && n.Status.ID == "" {
			err = apis.Terminal(apis.ReasonInvalid, err) // somebody else's does not go away by itself
		}
		return controller.Result{}, err
	}
	err = r.observe(name, func(m *apis.Meta, st *apis.NetworkStatus) {
		st.ID = id
		st.Conditions.SetReady(n.Generation)
	})
	return controller.Result{After: networkCheck, Background: true}, err
}

// remove waits for the last user, then removes the network.
func (r *Network) remove(ctx context.Context, n *apis.Network) error {
	if len(n.Holds) > 0 {
		return r.observe(n.Name, func(_ *apis.Meta, st *apis.NetworkStatus) {
			st.Conditions.SetNotReady(n.Generation, apis.ReasonWaiting, "in use by "+strings.Join(n.Holds, ", "))
		})
	}
	if !n.Spec.External {
		if err := r.node.Remove(ctx, n.Name); err != nil {
			return fmt.Errorf("removing network %s: %w", n.Name, err)
		}
	}
	return r.observe(n.Name, func(m *apis.Meta, _ *apis.NetworkStatus) { m.DropFinalizer(controller.FinalizerNetwork) })
}

func (r *Network) observe(name string, fn func(*apis.Meta, *apis.NetworkStatus)) error {
	return r.store.Commit(func(tx *controller.Tx) error { return r.status.Observe(tx, name, fn) })
}

// Report shows an error in the network's conditions.
func (r *Network) Report(name string, err error) {
	_ = r.observe(name, func(m *apis.Meta, st *apis.NetworkStatus) { setError(&st.Conditions, m, err) })
}
