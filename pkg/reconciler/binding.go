// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/slots"
)

// Binding gives devices and host ports to kernels. It has one worker: the
// order of requests is the policy.
type Binding struct {
	ledger   *Ledger
	store    *controller.Store
	bindings controller.Reader[apis.BindingSpec, apis.BindingStatus]
	status   controller.StatusWriter[apis.BindingSpec, apis.BindingStatus]
	gone     controller.Deleter[apis.BindingSpec, apis.BindingStatus]
	kernels  controller.Reader[apis.KernelSpec, apis.KernelStatus]
}

// NewBinding returns the binding reconciler.
func NewBinding(s *controller.Store, t *controller.Tables, l *Ledger) *Binding {
	return &Binding{
		ledger: l, store: s, bindings: t.Bindings.Reader(), status: t.Bindings.StatusWriter(),
		gone: t.Bindings.Deleter(), kernels: t.Kernels.Reader(),
	}
}

// Reconcile takes one binding one step further.
func (r *Binding) Reconcile(_ context.Context, name string) (controller.Result, error) {
	b, ok := r.bindings.Get(name)
	switch {
	case !ok:
		return controller.Result{}, nil
	case b.Deleting:
		return controller.Result{}, r.release(b)
	case orphaned(b.Meta, r.kernels):
		return controller.Result{}, r.store.Commit(func(tx *controller.Tx) error {
			r.gone.Delete(tx, name, "", "its kernel is gone")
			return nil
		})
	case b.Status.Conditions.IsReady(b.Generation):
		return controller.Result{}, nil
	}
	return controller.Result{}, r.store.Commit(func(tx *controller.Tx) error {
		held, leased := r.ledger.held(tx, name)
		devices, err := r.devices(b, held)
		if err != nil {
			return err
		}
		ports, err := r.ledger.lease(b, leased)
		if err != nil {
			return err
		}
		return r.status.Observe(tx, name, func(m *apis.Meta, st *apis.BindingStatus) {
			st.Allocations, st.Ports = devices, ports
			if st.At.IsZero() {
				st.At = time.Now().UTC()
			}
			st.Conditions.SetReady(m.Generation)
		})
	})
}

// devices allocates what is asked for; what is held for the same request is kept.
func (r *Binding) devices(b *apis.Binding, held map[string]slots.Allocation) (apis.Allocations, error) {
	want, err := slots.ParseAmounts(b.Spec.Slots)
	if err != nil {
		return nil, apis.Terminal(apis.ReasonInvalid, err)
	}
	if len(b.Status.Allocations) > 0 {
		have, err := slots.ParseAllocation(b.Status.Allocations)
		if err == nil && have.Total().Equal(want) {
			return b.Status.Allocations, nil
		}
	}
	got, err := r.ledger.Slots.Allocate(held, want)
	if err != nil {
		reason := apis.ReasonInvalid
		if errors.Is(err, slots.ErrInsufficient) {
			reason = apis.ReasonInsufficient
		}
		return nil, apis.Terminal(reason, err)
	}
	return got.Texts(), nil
}

// release gives everything back. Ports that were in use rest for a while.
func (r *Binding) release(b *apis.Binding) error {
	return r.store.Commit(func(tx *controller.Tx) error {
		if b.DeleteReason != unusedPorts {
			r.ledger.rest(b.Status.Ports)
		}
		return r.status.Observe(tx, b.Name, func(m *apis.Meta, _ *apis.BindingStatus) { m.DropFinalizer(finBinding) })
	})
}

// Report shows an error in the binding's conditions.
func (r *Binding) Report(name string, err error) {
	_ = r.store.Commit(func(tx *controller.Tx) error {
		return r.status.Observe(tx, name, func(m *apis.Meta, st *apis.BindingStatus) { setError(&st.Conditions, m, err) })
	})
}
