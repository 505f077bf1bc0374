// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"fmt"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/runtime"
)

// Scratch makes a kernel's directories and files exist.
type Scratch struct {
	store     *controller.Store
	scratches controller.Reader[apis.ScratchSpec, apis.ScratchStatus]
	status    controller.StatusWriter[apis.ScratchSpec, apis.ScratchStatus]
	gone      controller.Deleter[apis.ScratchSpec, apis.ScratchStatus]
	kernels   controller.Reader[apis.KernelSpec, apis.KernelStatus]
	node      runtime.Scratches
}

// NewScratch returns the scratch reconciler.
func NewScratch(s *controller.Store, t *controller.Tables, node runtime.Scratches) *Scratch {
	return &Scratch{
		store: s, scratches: t.Scratches.Reader(), status: t.Scratches.StatusWriter(), gone: t.Scratches.Deleter(),
		kernels: t.Kernels.Reader(), node: node,
	}
}

// Reconcile takes one scratch one step further.
func (r *Scratch) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	s, ok := r.scratches.Get(name)
	if !ok {
		return controller.Result{}, nil
	}
	if s.Deleting {
		err := r.node.Remove(ctx, name)
		if errors.Is(err, apis.ErrConflict) && s.Status.Path == "" {
			err = nil // what is in the way was never ours
		}
		if err != nil {
			return controller.Result{}, fmt.Errorf("removing scratch of kernel %s: %w", name, err)
		}
		return controller.Result{}, r.observe(name, func(m *apis.Meta, _ *apis.ScratchStatus) { m.DropFinalizer(finScratch) })
	}
	if orphaned(s.Meta, r.kernels) {
		return controller.Result{}, r.store.Commit(func(tx *controller.Tx) error {
			r.gone.Delete(tx, name, "", "its kernel is gone")
			return nil
		})
	}
	path, _, err := r.node.Ensure(ctx, name, s.Spec)
	if err != nil {
		err = fmt.Errorf("scratch of kernel %s: %w", name, err)
		if errors.Is(err, apis.ErrConflict) && s.Status.Path == "" {
			err = apis.Terminal(apis.ReasonStorage, err) // somebody else's does not go away by itself
		}
		return controller.Result{}, err
	}
	return controller.Result{}, r.observe(name, func(_ *apis.Meta, st *apis.ScratchStatus) {
		st.Path = path
		st.Conditions.SetReady(s.Generation)
	})
}

// orphaned tells that a kernel's part has lost its kernel: the backstop.
func orphaned(m apis.Meta, kernels controller.Reader[apis.KernelSpec, apis.KernelStatus]) bool {
	if m.Owner.Kind != apis.KindKernel {
		return false
	}
	_, ok := kernels.Get(m.Owner.Name)
	return !ok
}

func (r *Scratch) observe(name string, fn func(*apis.Meta, *apis.ScratchStatus)) error {
	return r.store.Commit(func(tx *controller.Tx) error { return r.status.Observe(tx, name, fn) })
}

// Report shows an error in the scratch's conditions.
func (r *Scratch) Report(name string, err error) {
	_ = r.observe(name, func(m *apis.Meta, st *apis.ScratchStatus) { setError(&st.Conditions, m, err) })
}
