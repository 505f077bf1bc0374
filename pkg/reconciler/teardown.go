// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// unusedPorts is the reason for letting a binding go whose ports were never
// published: they need no rest before somebody else gets them.
const unusedPorts = "unused"

// teardown takes the next step of a kernel's end; see the order in [Kernel].
func (r *Kernel) teardown(p parts) error {
	_, handedOver := r.dropped.Load(p.k.Name)
	// Scratches are not durable: after a restart, no object does not mean no directory.
	unsure := p.scratch == nil && !handedOver
	drops := p.container == nil && (unsure || p.scratch != nil)
	err := r.store.Commit(func(tx *controller.Tx) error {
		left := p.container != nil || p.scratch != nil || p.binding != nil || unsure
		if err := r.observeEnd(tx, p, left); err != nil {
			return err
		}
		switch {
		case p.container != nil: // 1
			return r.takeDownContainer(tx, p)
		case left: // 2
			reason := ""
			if p.k.Status.StartedAt.IsZero() {
				reason = unusedPorts
			}
			if unsure {
				if err := r.scratchSp.Apply(tx, partMeta(p.k.Name, finScratch), apis.ScratchSpec{}); err != nil {
					return err
				}
			}
			r.scratchSp.Delete(tx, p.k.Name, "", "")
			r.bindSpec.Delete(tx, p.k.Name, reason, "")
			return nil
		}
		// 3. Whoever hears of the end finds nothing left of the kernel.
		user := r.kernels.Key(p.k.Name).String()
		r.imageHold.Release(tx, apis.ImageName(p.k.Spec.Image), user)
		r.sessHold.Release(tx, p.k.Spec.SessionID, user)
		if p.session != nil && p.session.Spec.Network.Name != "" {
			r.netHold.Release(tx, p.session.Spec.Network.Name, user)
		}
		r.done.Delete(p.k.Name)
		return r.status.Observe(tx, p.k.Name, func(m *apis.Meta, _ *apis.KernelStatus) { m.DropFinalizer(controller.FinalizerKernel) })
	})
	switch {
	case err != nil:
	case drops:
		r.dropped.Store(p.k.Name, true)
	case handedOver && p.container == nil && p.binding == nil:
		r.dropped.Delete(p.k.Name)
	}
	return err
}

// takeDownContainer stops it first, so that exit code and log can be kept, then removes it.
func (r *Kernel) takeDownContainer(tx *controller.Tx, p parts) error {
	c := p.container
	st := c.Status
	never := st.StartedFor == 0 && st.State != apis.ContainerRunning
	stopped := st.State == apis.ContainerExited || st.State == apis.ContainerGone
	if c.Deleting || never || stopped || st.StopError != "" {
		r.contSpec.Delete(tx, c.Name, p.k.DeleteReason, "")
		return nil
	}
	spec := c.Spec
	spec.Stop = true
	return r.contSpec.Apply(tx, partMeta(c.Name, finContainer), spec)
}

// observeEnd moves the phase on and reports it.
func (r *Kernel) observeEnd(tx *controller.Tx, p parts, left bool) error {
	phase := apis.PhaseOf(apis.Parts{Deleting: true, PartsLeft: left}, p.k.Status.Phase)
	var now apis.KernelStatus
	err := r.status.Observe(tx, p.k.Name, func(_ *apis.Meta, st *apis.KernelStatus) {
		st.Phase = phase
		if c := p.container; c != nil && c.Status.ExitCode != nil && st.ExitCode == nil {
			st.ExitCode = c.Status.ExitCode
		}
		if _, stalled := st.Conditions.IsStalled(p.k.Generation); !stalled {
			st.Conditions.SetNotReady(p.k.Generation, string(apis.PhaseTerminating), p.k.DeleteReason)
		}
		now = *st
	})
	if err != nil {
		return err
	}
	if p.k.Status.Phase.Before(apis.PhaseTerminating) { // an end always begins, even if nothing was there
		if err := r.tell(tx, p.k, apis.PhaseTerminating, now); err != nil {
			return err
		}
	}
	if phase != p.k.Status.Phase && phase == apis.PhaseTerminated {
		return r.tell(tx, p.k, phase, now)
	}
	return nil
}
