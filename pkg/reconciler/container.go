// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/runtime"
)

const (
	// maxAttempts is how often a creation or start that the engine refuses is tried.
	maxAttempts = 4
	// missingFor is how long a started container must stay absent, by direct
	// looks, before it counts as gone: one wrong answer is not evidence.
	missingFor = time.Second
	// keepLogsFor bounds saving the log of an ended container.
	keepLogsFor = 20 * time.Second
)

// Container makes engine containers exist and starts each at most once for an
// incarnation of its kernel.
type Container struct {
	store      *controller.Store
	containers controller.Reader[apis.ContainerSpec, apis.ContainerStatus]
	status     controller.StatusWriter[apis.ContainerSpec, apis.ContainerStatus]
	gone       controller.Deleter[apis.ContainerSpec, apis.ContainerStatus]
	kernels    controller.Reader[apis.KernelSpec, apis.KernelStatus]
	node       runtime.Containers
	logs       runtime.LogKeeper
	turns      chan struct{} // as many as may be created or started at a time
}

// NewContainer returns the container reconciler. It creates and starts no more
// than that many at a time; whatever else it does waits for nobody, so that a
// container that cannot be stopped holds up no other.
func NewContainer(s *controller.Store, t *controller.Tables, node runtime.Containers, logs runtime.LogKeeper, creations int) *Container {
	return &Container{
		turns: make(chan struct{}, max(creations, 1)),
		store: s, containers: t.Containers.Reader(), status: t.Containers.StatusWriter(), gone: t.Containers.Deleter(),
		kernels: t.Kernels.Reader(), node: node, logs: logs,
	}
}

// Reconcile takes one container one step further.
func (r *Container) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	c, ok := r.containers.Get(name)
	if !ok || c.Labels[LeftAlone] != "" {
		return controller.Result{}, nil
	}
	if !c.Deleting && orphaned(c.Meta, r.kernels) {
		return controller.Result{}, r.store.Commit(func(tx *controller.Tx) error {
			r.gone.Delete(tx, name, "", "its kernel is gone")
			return nil
		})
	}
	seen, found, err := r.node.Find(ctx, c.Spec.EngineName)
	switch {
	case errors.Is(err, apis.ErrConflict) && !c.Deleting && c.Status.StartedFor == 0:
		return controller.Result{}, apis.Terminal(apis.ReasonInvalid, err)
	case errors.Is(err, apis.ErrConflict): // ours is gone, and somebody else's of that name is none of our business
	case err != nil:
		return controller.Result{}, fmt.Errorf("looking for container %s: %w", c.Spec.EngineName, err)
	}
	switch {
	case c.Deleting:
		return controller.Result{}, r.remove(ctx, c, seen, found)
	case !found:
		return r.absent(ctx, c)
	case seen.Incarnation < c.Spec.Incarnation:
		return r.replaceOld(ctx, c, seen)
	}
	switch seen.State {
	case apis.ContainerCreated:
		return r.created(ctx, c, seen)
	case apis.ContainerRunning:
		return controller.Result{}, r.running(ctx, c, seen)
	case apis.ContainerExited, apis.ContainerGone:
		return controller.Result{}, r.ended(ctx, c, seen)
	}
	return controller.Result{}, fmt.Errorf("container %s: unknown state %q", c.Spec.EngineName, seen.State)
}

// absent creates the container, unless it has been started before: then it is
// gone, and its kernel ends.
func (r *Container) absent(ctx context.Context, c *apis.Container) (controller.Result, error) {
	st := c.Status
	switch {
	case st.StartedFor == c.Spec.Incarnation && st.MissingSince.IsZero() && !c.Spec.Stop:
		err := r.observe(c.Name, func(st *apis.ContainerStatus) { st.MissingSince = time.Now().UTC() })
		return controller.Result{After: missingFor}, err
	case st.StartedFor == c.Spec.Incarnation && time.Since(st.MissingSince) < missingFor && !c.Spec.Stop:
		return controller.Result{After: missingFor - time.Since(st.MissingSince)}, nil
	case st.StartedFor == c.Spec.Incarnation, c.Spec.Stop:
		return controller.Result{}, r.observe(c.Name, func(st *apis.ContainerStatus) {
			st.State, st.Incarnation = apis.ContainerGone, c.Spec.Incarnation
			st.Conditions.SetNotReady(c.Generation, apis.ReasonGone, "the container is gone")
		})
	case st.PortInUse != 0 && st.Hash == apis.ContainerHash(c.Spec):
		return controller.Result{}, nil // other ports are on their way
	}
	var id string
	err := r.inTurn(ctx, func() (err error) {
		id, err = r.node.Create(ctx, c.Spec)
		return err
	})
	if err != nil {
		return controller.Result{}, r.refused(c, err)
	}
	return r.seeCreated(c, id, apis.ContainerHash(c.Spec))
}

// seeCreated notes a container that was created and not started.
func (r *Container) seeCreated(c *apis.Container, id, hash string) (controller.Result, error) {
	err := r.observe(c.Name, func(st *apis.ContainerStatus) {
		st.ID, st.State, st.Hash, st.Incarnation = id, apis.ContainerCreated, hash, c.Spec.Incarnation
		st.ExitCode, st.OOMKilled, st.Error, st.MissingSince, st.PortInUse, st.LogsKept = nil, false, "", time.Time{}, 0, false
		st.Conditions.SetReady(c.Generation)
		if c.Spec.Run {
			st.Conditions.SetNotReady(c.Generation, apis.ReasonWaiting, "created, not started yet")
		}
	})
	if err != nil || !c.Spec.Run {
		return controller.Result{}, err
	}
	return controller.Result{After: time.Nanosecond}, nil
}

// replaceOld removes the container of an earlier incarnation.
func (r *Container) replaceOld(ctx context.Context, c *apis.Container, seen runtime.ContainerState) (controller.Result, error) {
	if err := r.node.Stop(ctx, seen.ID, c.Spec.StopGrace); err != nil {
		return controller.Result{}, fmt.Errorf("stopping container %s of incarnation %d: %w", seen.EngineName, seen.Incarnation, err)
	}
	if err := r.node.Remove(ctx, seen.ID); err != nil {
		return controller.Result{}, fmt.Errorf("removing container %s of incarnation %d: %w", seen.EngineName, seen.Incarnation, err)
	}
	return controller.Result{After: time.Nanosecond}, nil
}

// created starts the container when it shall run. A created container never
// ran, whatever the start fact says, so a wrong one may be made anew.
func (r *Container) created(ctx context.Context, c *apis.Container, seen runtime.ContainerState) (controller.Result, error) {
	want := apis.ContainerHash(c.Spec)
	switch {
	case seen.Hash != want:
		err := r.observe(c.Name, func(st *apis.ContainerStatus) { st.StartedFor, st.Attempts = 0, 0 })
		if err != nil {
			return controller.Result{}, err
		}
		if err := r.node.Remove(ctx, seen.ID); err != nil {
			return controller.Result{}, fmt.Errorf("removing container %s, which has another spec: %w", seen.EngineName, err)
		}
		return controller.Result{After: time.Nanosecond}, nil
	case c.Spec.Stop:
		return controller.Result{}, r.observe(c.Name, func(st *apis.ContainerStatus) {
			st.ID, st.State, st.Incarnation = seen.ID, apis.ContainerExited, c.Spec.Incarnation
			st.Conditions.SetReady(c.Generation)
		})
	case !c.Spec.Run:
		if c.Status.ID == seen.ID && c.Status.State == apis.ContainerCreated && c.Status.Conditions.IsReady(c.Generation) {
			return controller.Result{}, nil
		}
		return r.seeCreated(c, seen.ID, seen.Hash)
	case c.Status.PortInUse != 0:
		return controller.Result{}, nil // other ports are on their way
	}
	// The decision is on disk before the start: a container that has the fact
	// and is absent later did run, and must not run again.
	err := r.observe(c.Name, func(st *apis.ContainerStatus) {
		st.ID, st.State, st.Hash, st.Incarnation = seen.ID, apis.ContainerCreated, seen.Hash, c.Spec.Incarnation
		st.StartedFor = c.Spec.Incarnation
	})
	if err != nil {
		return controller.Result{}, err
	}
	if err := r.inTurn(ctx, func() error { return r.node.Start(ctx, seen.ID) }); err != nil {
		return controller.Result{}, r.refused(c, err)
	}
	// A start that succeeded leaves nothing to ask: the next look comes with
	// the container's own end.
	return controller.Result{}, r.seeRunning(c, seen.ID, seen.Hash)
}

// inTurn does it when fewer than the allowed number are at it.
func (r *Container) inTurn(ctx context.Context, do func() error) error {
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
		return do()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refused counts what the engine refused. It gives up after a few, since what
// an answering engine refuses it mostly keeps refusing.
func (r *Container) refused(c *apis.Container, err error) error {
	var port *apis.PortInUseError
	switch {
	case errors.As(err, &port):
		num := port.Port
		if num == 0 {
			num = -1
		}
		return r.observe(c.Name, func(st *apis.ContainerStatus) {
			st.PortInUse = num
			st.Conditions.SetNotReady(c.Generation, apis.ReasonPortInUse, err.Error())
		})
	case errors.Is(err, apis.ErrUnavailable) && !errors.Is(err, apis.ErrRefused), errors.Is(err, apis.ErrConflict),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("container %s: %w", c.Spec.EngineName, err)
	}
	n := c.Status.Attempts + 1
	if oerr := r.observe(c.Name, func(st *apis.ContainerStatus) { st.Attempts = n }); oerr != nil {
		return oerr
	}
	if _, ok := apis.AsTerminal(err); !ok && n >= maxAttempts {
		err = apis.Terminal(apis.ReasonInvalid, fmt.Errorf("after %d attempts: %w", n, err))
	}
	return fmt.Errorf("container %s: %w", c.Spec.EngineName, err)
}

// running notes that it runs, or stops it.
func (r *Container) running(ctx context.Context, c *apis.Container, seen runtime.ContainerState) error {
	if !c.Spec.Stop {
		return r.seeRunning(c, seen.ID, seen.Hash)
	}
	if c.Status.StopError != "" {
		return nil // its kernel is about to have it removed by force
	}
	if err := r.node.Stop(ctx, seen.ID, c.Spec.StopGrace); err != nil {
		// The kernel goes on with a removal by force.
		return r.observe(c.Name, func(st *apis.ContainerStatus) {
			st.StopError = err.Error()
			st.Conditions.SetNotReady(c.Generation, apis.ReasonRetrying, "stopping: "+err.Error())
		})
	}
	now, found, err := r.node.Find(ctx, c.Spec.EngineName)
	switch {
	case err != nil:
		return fmt.Errorf("looking at container %s after its stop: %w", c.Spec.EngineName, err)
	case !found:
		now = seen
	}
	now.State = apis.ContainerExited
	return r.ended(ctx, c, now)
}

func (r *Container) seeRunning(c *apis.Container, id, hash string) error {
	want := apis.ContainerHash(c.Spec)
	return r.observe(c.Name, func(st *apis.ContainerStatus) {
		st.ID, st.State, st.Hash, st.Incarnation = id, apis.ContainerRunning, hash, c.Spec.Incarnation
		st.StartedFor, st.MissingSince = c.Spec.Incarnation, time.Time{}
		st.Conditions.SetReady(c.Generation)
		st.Conditions.Drop(apis.Drifted)
		if hash != want { // people's processes live there: it is left as it is
			st.Conditions.Set(apis.Condition{
				Type: apis.Drifted, Status: true, Reason: apis.ReasonDrifted, ObservedGeneration: c.Generation,
				Message: "the running container differs from its spec; it stays until the kernel is restarted or ends",
			})
		}
	})
}

// ended keeps the log and notes the exit code.
func (r *Container) ended(ctx context.Context, c *apis.Container, seen runtime.ContainerState) error {
	if c.Status.State == apis.ContainerExited && c.Status.ID == seen.ID && c.Status.LogsKept {
		return nil
	}
	r.keepLogs(ctx, c.Name, seen.ID)
	code := seen.ExitCode
	return r.observe(c.Name, func(st *apis.ContainerStatus) {
		st.ID, st.State, st.Hash, st.Incarnation = seen.ID, apis.ContainerExited, seen.Hash, seen.Incarnation
		st.StartedFor = seen.Incarnation
		st.ExitCode, st.OOMKilled, st.Error, st.LogsKept = &code, seen.OOMKilled, seen.Error, true
		st.Conditions.SetNotReady(c.Generation, apis.ReasonEnded, fmt.Sprintf("ended with exit code %d", code))
	})
}

// keepLogs saves what can be read in time; a log that cannot be read does not
// keep the container on the node.
func (r *Container) keepLogs(ctx context.Context, name, id string) {
	ctx, cancel := context.WithTimeout(ctx, keepLogsFor)
	defer cancel()
	log, err := r.node.Logs(ctx, id, runtime.LogOptions{})
	if err != nil {
		return
	}
	defer func() { _ = log.Close() }()
	_ = r.logs.Save(ctx, name, log)
}

// remove takes it off the node; what still runs is asked to end first.
func (r *Container) remove(ctx context.Context, c *apis.Container, seen runtime.ContainerState, found bool) error {
	if found {
		if seen.State == apis.ContainerRunning && c.Status.StopError == "" {
			if err := r.node.Stop(ctx, seen.ID, c.Spec.StopGrace); err != nil {
				if oerr := r.observe(c.Name, func(st *apis.ContainerStatus) { st.StopError = err.Error() }); oerr != nil {
					return oerr
				}
				return fmt.Errorf("stopping container %s: %w", seen.EngineName, err)
			}
		}
		if !c.Status.LogsKept && seen.State != apis.ContainerCreated {
			r.keepLogs(ctx, c.Name, seen.ID)
		}
		if err := r.node.Remove(ctx, seen.ID); err != nil {
			return fmt.Errorf("removing container %s: %w", seen.EngineName, err)
		}
	}
	return r.store.Commit(func(tx *controller.Tx) error {
		return r.status.Observe(tx, c.Name, func(m *apis.Meta, _ *apis.ContainerStatus) { m.DropFinalizer(finContainer) })
	})
}

func (r *Container) observe(name string, fn func(*apis.ContainerStatus)) error {
	return r.store.Commit(func(tx *controller.Tx) error {
		return r.status.Observe(tx, name, func(_ *apis.Meta, st *apis.ContainerStatus) { fn(st) })
	})
}

// Report shows an error in the container's conditions.
func (r *Container) Report(name string, err error) {
	_ = r.store.Commit(func(tx *controller.Tx) error {
		return r.status.Observe(tx, name, func(m *apis.Meta, st *apis.ContainerStatus) { setError(&st.Conditions, m, err) })
	})
}
