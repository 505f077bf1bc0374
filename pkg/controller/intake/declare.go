// SPDX-License-Identifier: Apache-2.0

// Package intake is the door through which wishes come in: it checks a request,
// writes it as specs into the store in one transaction, and waits for the
// status that answers it. It never touches the node.
package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// Declare writes wishes and waits for what becomes of them.
type Declare struct {
	store    *controller.Store
	sessions controller.Reader[apis.ClusterSessionSpec, apis.ClusterSessionStatus]
	sessSpec controller.SpecWriter[apis.ClusterSessionSpec, apis.ClusterSessionStatus]
	kernels  controller.Reader[apis.KernelSpec, apis.KernelStatus]
	kernSpec controller.SpecWriter[apis.KernelSpec, apis.KernelStatus]
	events   controller.Reader[apis.EventSpec, apis.EventStatus]
	outbox   *controller.Outbox
}

// NewDeclare returns the declaring half of the intake.
func NewDeclare(s *controller.Store, t *controller.Tables, out *controller.Outbox) *Declare {
	return &Declare{
		store: s, sessions: t.Sessions.Reader(), sessSpec: t.Sessions.SpecWriter(),
		kernels: t.Kernels.Reader(), kernSpec: t.Kernels.SpecWriter(), events: t.Events.Reader(), outbox: out,
	}
}

// DestroySession asks for the end of a session and of all its kernels.
// ErrNotFound if there is no such session.
func (d *Declare) DestroySession(id, reason, message string) error {
	return d.store.Commit(func(tx *controller.Tx) error {
		s, ok := d.sessions.GetIn(tx, id)
		if !ok {
			return fmt.Errorf("session %s: %w", id, apis.ErrNotFound)
		}
		for _, k := range s.Spec.Kernels {
			d.kernSpec.Delete(tx, k, reason, message)
		}
		d.sessSpec.Delete(tx, id, reason, message)
		return nil
	})
}

// DestroyKernel asks for the end of one kernel. A kernel that does not exist is
// reported as already terminated, unless its end still stands among the events or
// events are suppressed, and is success.
func (d *Declare) DestroyKernel(kernelID, sessionID, reason string, suppress bool) error {
	_, reported := controller.LastEnd(d.events, kernelID)
	return d.store.Commit(func(tx *controller.Tx) error {
		k, ok := d.kernels.GetIn(tx, kernelID)
		switch {
		case !ok && suppress:
			return nil
		case !ok && reported:
			return nil
		case !ok:
			return d.outbox.Add(tx, apis.EventSpec{
				Type: apis.EventKernelTerminated, KernelID: kernelID, SessionID: sessionID, Reason: apis.ReasonAlreadyTerminated,
			})
		}
		if suppress && !k.Deleting && !k.Spec.SuppressEvents {
			spec := k.Spec
			spec.SuppressEvents = true
			if err := d.kernSpec.Apply(tx, controller.KernelMeta(kernelID, k.Spec.SessionID), spec); err != nil {
				return err
			}
		}
		d.kernSpec.Delete(tx, kernelID, reason, "")
		return nil
	})
}

// Restart asks for a new incarnation of a kernel, with the changes that edit
// makes to its spec. ErrNotFound, or ErrConflict while it is being deleted.
func (d *Declare) Restart(kernelID string, edit func(*apis.KernelSpec)) error {
	return d.store.Commit(func(tx *controller.Tx) error {
		k, ok := d.kernels.GetIn(tx, kernelID)
		if !ok {
			return fmt.Errorf("kernel %s: %w", kernelID, apis.ErrNotFound)
		}
		spec := k.Spec
		if edit != nil {
			edit(&spec)
		}
		spec.Incarnation = k.Spec.Incarnation + 1
		if err := apis.ValidateKernel(kernelID, spec); err != nil {
			return err
		}
		return d.kernSpec.Apply(tx, controller.KernelMeta(kernelID, k.Spec.SessionID), spec)
	})
}

// FailedError says that a kernel ended instead of becoming ready.
type FailedError struct {
	KernelID string
	Reason   string
	Message  string
}

// Error names the kernel, the reason and what is known of it.
func (e *FailedError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("kernel %s: %s", e.KernelID, e.Reason)
	}
	return fmt.Sprintf("kernel %s: %s: %s", e.KernelID, e.Reason, e.Message)
}

// WaitReady waits until the kernel is ready and returns its status. A kernel
// that ends instead is a FailedError; the context's end ends only the wait.
func (d *Declare) WaitReady(ctx context.Context, kernelID string) (apis.KernelStatus, error) {
	var st apis.KernelStatus
	var failed *FailedError
	err := d.kernels.Wait(ctx, kernelID, func(k *apis.Kernel) bool {
		switch {
		case k == nil:
			if failed == nil {
				failed = &FailedError{KernelID: kernelID, Reason: apis.ReasonAlreadyTerminated}
			}
			return true
		case k.Deleting:
			failed = &FailedError{KernelID: kernelID, Reason: k.DeleteReason, Message: k.DeleteMessage}
			return false // its end is waited for, so that nothing of it is left when the caller hears of it
		}
		st = k.Status
		return k.Status.Conditions.IsReady(k.Generation)
	})
	switch {
	case err != nil:
		return st, fmt.Errorf("waiting for kernel %s: %w", kernelID, err)
	case failed != nil:
		if e, ok := controller.LastEnd(d.events, kernelID); ok && failed.Reason == apis.ReasonAlreadyTerminated {
			failed.Reason, failed.Message = e.Reason, e.Message
		}
		return st, failed
	}
	return st, nil
}

// WaitSessionReady waits for all kernels of a session. The first failure in
// the session's order is returned, after all have been waited for.
func (d *Declare) WaitSessionReady(ctx context.Context, id string) error {
	s, ok := d.sessions.Get(id)
	if !ok {
		return fmt.Errorf("session %s: %w", id, apis.ErrNotFound)
	}
	var errs []error
	for _, k := range s.Spec.Kernels {
		if _, err := d.WaitReady(ctx, k); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// WaitKernelGone waits until the kernel does not exist.
func (d *Declare) WaitKernelGone(ctx context.Context, kernelID string) error {
	return d.kernels.Wait(ctx, kernelID, func(k *apis.Kernel) bool { return k == nil })
}

// WaitSessionGone waits until the session does not exist.
func (d *Declare) WaitSessionGone(ctx context.Context, id string) error {
	return d.sessions.Wait(ctx, id, func(s *apis.ClusterSession) bool { return s == nil })
}

// FindSession resolves an ID, a title, or the beginning of an ID that only one session has.
func (d *Declare) FindSession(ref string) (*apis.ClusterSession, error) {
	var found []*apis.ClusterSession
	for _, s := range d.sessions.List() {
		if s.Name == ref {
			return s, nil
		}
		if s.Spec.Title == ref || len(ref) >= 4 && len(s.Name) > len(ref) && s.Name[:len(ref)] == ref {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("session %q: %w; \"agentd get clustersessions\" lists those that exist", ref, apis.ErrNotFound)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("session %q: %w: %d sessions are meant; use an ID", ref, apis.ErrConflict, len(found))
}

// FindKernel resolves a kernel ID, the beginning of one, or SESSION/HOST; a
// session alone means its first kernel.
func (d *Declare) FindKernel(ref string) (*apis.Kernel, error) {
	if k, ok := d.kernels.Get(ref); ok {
		return k, nil
	}
	var found []*apis.Kernel
	for _, k := range d.kernels.List() {
		if len(ref) >= 4 && len(k.Name) > len(ref) && k.Name[:len(ref)] == ref {
			found = append(found, k)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	name, host := ref, ""
	if i := slices.Index([]byte(ref), '/'); i >= 0 {
		name, host = ref[:i], ref[i+1:]
	}
	s, err := d.FindSession(name)
	if err != nil {
		return nil, fmt.Errorf("kernel %q: %w; \"agentd get kernels\" lists those that exist", ref, apis.ErrNotFound)
	}
	for _, id := range s.Spec.Kernels {
		if k, ok := d.kernels.Get(id); ok && (host == "" || k.Spec.Hostname == host) {
			return k, nil
		}
	}
	return nil, fmt.Errorf("kernel %q: %w: session %s has no such host; it has %v", ref, apis.ErrNotFound, s.Name, s.Status.Hosts)
}
