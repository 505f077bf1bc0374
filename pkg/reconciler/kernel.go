// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/runtime"
)

const (
	// probeFor bounds one wait for the runner, so that a long bootstrap does
	// not hold a worker; probeAgain is the pause before the next.
	probeFor   = 250 * time.Millisecond
	probeAgain = 500 * time.Millisecond
	// networkAgain is the pause between two looks for a network that is not known yet.
	networkAgain = time.Second
	// maxPortTries is how many ports may turn out to be taken before a kernel gives up.
	maxPortTries = 8
)

// Kernel takes kernels from their spec to a running container and back.
//
// A kernel is built from parts in this order:
//
//  1. Image (present, and its labels known)
//  2. Binding (devices and host ports) and the session's network
//  3. Scratch (directories and files)
//  4. Container, created; Scratch again, now with the container's ID
//  5. Container, started; the runner answers
//
// and taken down users first, then what they use:
//
//  1. Container: stopped, its log and exit code kept; then removed
//  2. Scratch and Binding
//  3. the end is reported and the kernel goes, in one transaction
type Kernel struct {
	store    *controller.Store
	settings Settings
	outbox   *controller.Outbox
	runner   runtime.Runner
	paths    interface{ Path(name string) string }

	kernels  controller.Reader[apis.KernelSpec, apis.KernelStatus]
	status   controller.StatusWriter[apis.KernelSpec, apis.KernelStatus]
	gone     controller.Deleter[apis.KernelSpec, apis.KernelStatus]
	sessions controller.Reader[apis.ClusterSessionSpec, apis.ClusterSessionStatus]
	sessHold controller.Holder[apis.ClusterSessionSpec, apis.ClusterSessionStatus]

	images     controller.Reader[apis.ImageSpec, apis.ImageStatus]
	imageSpec  controller.SpecWriter[apis.ImageSpec, apis.ImageStatus]
	imageHold  controller.Holder[apis.ImageSpec, apis.ImageStatus]
	networks   controller.Reader[apis.NetworkSpec, apis.NetworkStatus]
	netHold    controller.Holder[apis.NetworkSpec, apis.NetworkStatus]
	bindings   controller.Reader[apis.BindingSpec, apis.BindingStatus]
	bindSpec   controller.SpecWriter[apis.BindingSpec, apis.BindingStatus]
	scratches  controller.Reader[apis.ScratchSpec, apis.ScratchStatus]
	scratchSp  controller.SpecWriter[apis.ScratchSpec, apis.ScratchStatus]
	containers controller.Reader[apis.ContainerSpec, apis.ContainerStatus]
	contSpec   controller.SpecWriter[apis.ContainerSpec, apis.ContainerStatus]

	done    sync.Map // name → inputs of the last pass that found nothing to do
	dropped sync.Map // names whose scratch was handed over for removal
}

// NewKernel returns the kernel reconciler.
func NewKernel(s *controller.Store, t *controller.Tables, set Settings, out *controller.Outbox, node runtime.Node) *Kernel {
	return &Kernel{
		store: s, settings: set, outbox: out, runner: node.Runner, paths: node.Scratches,
		kernels: t.Kernels.Reader(), status: t.Kernels.StatusWriter(), gone: t.Kernels.Deleter(),
		sessions: t.Sessions.Reader(), sessHold: t.Sessions.Holder(),
		images: t.Images.Reader(), imageSpec: t.Images.SpecWriter(), imageHold: t.Images.Holder(),
		networks: t.Networks.Reader(), netHold: t.Networks.Holder(),
		bindings: t.Bindings.Reader(), bindSpec: t.Bindings.SpecWriter(),
		scratches: t.Scratches.Reader(), scratchSp: t.Scratches.SpecWriter(),
		containers: t.Containers.Reader(), contSpec: t.Containers.SpecWriter(),
	}
}

// inputs are the revisions that a pass over a kernel follows from.
type inputs struct{ kernel, session, image, network, binding, scratch, container uint64 }

// parts is a kernel with all that belongs to it, as the store has it now.
type parts struct {
	k         *apis.Kernel
	session   *apis.ClusterSession
	image     *apis.Image
	network   *apis.Network
	binding   *apis.Binding
	scratch   *apis.Scratch
	container *apis.Container
}

// read returns the parts; absent ones are nil.
func (r *Kernel) read(k *apis.Kernel) parts {
	p := parts{k: k}
	p.session, _ = r.sessions.Get(k.Spec.SessionID)
	p.image, _ = r.images.Get(apis.ImageName(k.Spec.Image))
	p.binding, _ = r.bindings.Get(k.Name)
	p.scratch, _ = r.scratches.Get(k.Name)
	p.container, _ = r.containers.Get(k.Name)
	if p.session != nil && p.session.Spec.Network.Name != "" {
		p.network, _ = r.networks.Get(p.session.Spec.Network.Name)
	}
	return p
}

// revisions returns the kernel's inputs without copying anything.
func (r *Kernel) revisions(name string, last inputsOf) inputs {
	return inputs{
		kernel: r.kernels.Revision(name), session: r.sessions.Revision(last.session), image: r.images.Revision(last.image),
		network: r.networks.Revision(last.network),
		binding: r.bindings.Revision(name), scratch: r.scratches.Revision(name), container: r.containers.Revision(name),
	}
}

// inputsOf are the names of the inputs that are not named after the kernel.
type inputsOf struct{ session, image, network string }

// quiet is what is remembered of a pass that found nothing to do.
type quiet struct {
	of  inputsOf
	was inputs
}

// Reconcile takes one kernel one step further.
func (r *Kernel) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	if q, ok := r.done.Load(name); ok {
		q, _ := q.(quiet)
		if r.revisions(name, q.of) == q.was { // nothing that matters has changed
			return controller.Result{}, nil
		}
		r.done.Delete(name)
	}
	k, ok := r.kernels.Get(name)
	if !ok {
		return controller.Result{}, nil
	}
	p := r.read(k)
	if k.Deleting {
		return controller.Result{}, r.teardown(p)
	}
	res, err := r.converge(ctx, p)
	if err == nil && res == (controller.Result{}) && k.Status.Conditions.IsReady(k.Generation) {
		q := quiet{of: inputsOf{k.Spec.SessionID, apis.ImageName(k.Spec.Image), ""}, was: p.revisions()}
		if p.session != nil {
			q.of.network = p.session.Spec.Network.Name
		}
		r.done.Store(name, q)
	}
	return res, err
}

// revisions returns the revisions that the parts were read at.
func (p parts) revisions() inputs {
	in := inputs{kernel: p.k.Revision}
	if p.session != nil {
		in.session = p.session.Revision
	}
	if p.image != nil {
		in.image = p.image.Revision
	}
	if p.network != nil {
		in.network = p.network.Revision
	}
	if p.binding != nil {
		in.binding = p.binding.Revision
	}
	if p.scratch != nil {
		in.scratch = p.scratch.Revision
	}
	if p.container != nil {
		in.container = p.container.Revision
	}
	return in
}

// converge takes the next step towards a running kernel.
func (r *Kernel) converge(ctx context.Context, p parts) (controller.Result, error) {
	k := p.k
	started := k.Status.Incarnation == k.Spec.Incarnation && !k.Status.Phase.Before(apis.PhaseRunning)
	if reason, msg, code := p.endedByItself(started); reason != "" {
		return controller.Result{}, r.end(k, reason, msg, code)
	}
	if !started { // a kernel that runs is not ended by what its parts turn into
		if reason, msg := r.failed(p); reason != "" {
			return controller.Result{}, r.end(k, reason, msg, nil)
		}
	}
	ready, res := r.probe(ctx, p, started)
	err := r.store.Commit(func(tx *controller.Tx) error {
		if err := r.applyParts(tx, p); err != nil {
			return err
		}
		return r.observe(tx, p, ready)
	})
	if t, ok := apis.AsTerminal(err); ok && !started {
		return controller.Result{}, r.end(k, apis.ReasonFailedToCreate, t.Reason+": "+err.Error(), nil)
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	switch {
	case started || ready:
		return controller.Result{}, nil
	case p.network == nil && p.session.Spec.Network.Name != "":
		res.After = networkAgain // nobody tells of a thing that does not exist yet
	}
	return p.wakeBy(res), nil
}

// wakeBy makes sure that the start deadline is looked at when it passes.
func (p parts) wakeBy(res controller.Result) controller.Result {
	by := p.k.Status.StartBy
	if by.IsZero() {
		return res
	}
	left := max(time.Until(by), time.Millisecond)
	if res.After == 0 || left < res.After {
		res.After = left
	}
	return res
}

// endedByItself tells whether, why and how the container came to its own end.
func (p parts) endedByItself(started bool) (reason, msg string, code *int) {
	c := p.container
	if c == nil || c.Spec.Stop || c.Status.Incarnation != p.k.Spec.Incarnation || c.Spec.Incarnation != p.k.Spec.Incarnation {
		return "", "", nil
	}
	switch c.Status.State {
	case apis.ContainerExited:
		msg = "the main process ended"
		if c.Status.ExitCode != nil {
			msg = fmt.Sprintf("the main process ended with exit code %d", *c.Status.ExitCode)
			if signal := *c.Status.ExitCode - 128; signal > 0 && signal <= 64 {
				msg += fmt.Sprintf(", as after signal %d", signal)
			}
		}
		if c.Status.OOMKilled {
			msg += " (out of memory)"
		}
		if c.Status.Error != "" {
			msg += ": " + c.Status.Error
		}
	case apis.ContainerGone:
		if started {
			return apis.ReasonContainerNotFound, "its container was removed by somebody else", nil
		}
		msg = "its container was removed by somebody else before it was ready"
	case apis.ContainerCreated, apis.ContainerRunning:
		return "", "", nil
	default:
		return "", "", nil
	}
	if !started && len(p.k.Spec.Command) == 0 {
		return apis.ReasonFailedToStart, msg + " before the kernel was ready; its log says more", c.Status.ExitCode
	}
	return apis.ReasonSelfTerminated, msg, c.Status.ExitCode
}

// failed tells whether and why the kernel cannot be started.
func (r *Kernel) failed(p parts) (reason, msg string) {
	if p.session == nil {
		return apis.ReasonFailedToCreate, fmt.Sprintf("its session %s does not exist", p.k.Spec.SessionID)
	}
	var waiting string
	for _, part := range p.conditions() {
		if s, ok := part.c.IsStalled(part.generation); ok {
			return apis.ReasonFailedToCreate, s.Reason + ": " + s.Message
		}
		if c, ok := part.c.Get(apis.Ready); ok && !c.Status && c.Message != "" {
			waiting = "; " + string(part.kind) + ": " + c.Message
		}
	}
	if by := p.k.Status.StartBy; !by.IsZero() && !time.Now().Before(by) {
		reason = apis.ReasonFailedToCreate
		if p.container != nil && p.container.Status.State == apis.ContainerRunning {
			reason, waiting = apis.ReasonFailedToStart, "; its container runs, but the runner in it did not become ready"
		}
		return reason, fmt.Sprintf("%s: not started within %s%s", apis.ReasonStartDeadline, r.settings.StartTimeout, waiting)
	}
	return "", ""
}

type partConditions struct {
	kind       apis.Kind
	generation int64
	c          apis.Conditions
}

// conditions lists the conditions of the parts that exist.
func (p parts) conditions() []partConditions {
	var out []partConditions
	out = append(out, partConditions{apis.KindClusterSession, p.session.Generation, p.session.Status.Conditions})
	if p.image != nil {
		out = append(out, partConditions{apis.KindImage, p.image.Generation, p.image.Status.Conditions})
	}
	if p.network != nil {
		out = append(out, partConditions{apis.KindNetwork, p.network.Generation, p.network.Status.Conditions})
	}
	if p.binding != nil {
		out = append(out, partConditions{apis.KindBinding, p.binding.Generation, p.binding.Status.Conditions})
	}
	if p.scratch != nil {
		out = append(out, partConditions{apis.KindScratch, p.scratch.Generation, p.scratch.Status.Conditions})
	}
	if p.container != nil {
		out = append(out, partConditions{apis.KindContainer, p.container.Generation, p.container.Status.Conditions})
	}
	return out
}

// probe asks the runner of a container that runs and is not known to be ready.
func (r *Kernel) probe(ctx context.Context, p parts, started bool) (bool, controller.Result) {
	c := p.container
	switch {
	case started:
		return true, controller.Result{}
	case c == nil, c.Spec.Incarnation != p.k.Spec.Incarnation, c.Status.Incarnation != p.k.Spec.Incarnation,
		c.Status.State != apis.ContainerRunning:
		return false, controller.Result{}
	}
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	if err := r.runner.WaitReady(ctx, p.k.Name); err != nil { // not yet: asked again, until the start deadline
		return false, controller.Result{After: probeAgain}
	}
	return true, controller.Result{}
}

// applyParts writes the specs of the parts that can be written by now.
func (r *Kernel) applyParts(tx *controller.Tx, p parts) error {
	k := p.k
	user := r.kernels.Key(k.Name).String()
	// Who holds a thing is woken by its changes.
	if p.session != nil && !p.session.Deleting {
		if err := r.sessHold.Hold(tx, p.session.Name, user); err != nil {
			return err
		}
	}
	name := apis.ImageName(k.Spec.Image)
	if p.image == nil || p.image.Deleting {
		if err := r.imageSpec.Apply(tx, apis.Meta{Name: name}, apis.ImageSpec{Ref: k.Spec.Image}); err != nil {
			return err
		}
	}
	if err := r.imageHold.Hold(tx, name, user); err != nil {
		return err
	}
	if p.network != nil && !p.network.Deleting {
		if err := r.netHold.Hold(tx, p.network.Name, user); err != nil {
			return err
		}
	}
	if p.session == nil || p.image == nil || !p.image.Status.Conditions.IsReady(p.image.Generation) {
		return nil
	}
	spec, err := r.bindingSpec(p)
	if err != nil {
		return err
	}
	if err := r.bindSpec.Apply(tx, partMeta(k.Name, finBinding), spec); err != nil {
		return err
	}
	if !p.bindingReady() || !p.networkReady() {
		return nil
	}
	return r.applyContainer(tx, p)
}

// bindingSpec is what the kernel wants to hold. Ports that turned out to be
// taken are given up for others.
func (r *Kernel) bindingSpec(p parts) (apis.BindingSpec, error) {
	spec, err := BindingFor(p.input(), r.settings)
	if err != nil || p.binding == nil {
		return spec, err
	}
	spec.AvoidPorts = p.binding.Spec.AvoidPorts
	// What the engine said counts for the ports that it was asked for, not for those leased since.
	if c := p.container; c != nil && c.Status.PortInUse != 0 && p.bindingReady() &&
		c.Status.Hash == apis.ContainerHash(c.Spec) && slices.Equal(c.Spec.Ports, p.binding.Status.Ports) {
		bad := c.Status.PortInUse
		for _, l := range p.binding.Status.Ports {
			if l.Host == bad || bad < 0 {
				spec.AvoidPorts = append(spec.AvoidPorts, l.Host)
			}
		}
		if len(spec.AvoidPorts) > maxPortTries || len(spec.AvoidPorts) == len(p.binding.Spec.AvoidPorts) {
			return spec, apis.Terminalf(apis.ReasonPortInUse, "host ports are taken by other programs: %v", spec.AvoidPorts)
		}
	}
	return spec, nil
}

// applyContainer writes scratch and container; the container is started once
// the scratch carries its ID.
func (r *Kernel) applyContainer(tx *controller.Tx, p parts) error {
	k := p.k
	var id string
	same := p.container != nil && p.container.Spec.Incarnation == k.Spec.Incarnation
	if same && p.container.Status.Incarnation == k.Spec.Incarnation {
		id = p.container.Status.ID
	}
	in := p.input()
	in.containerID, in.dir = id, r.paths.Path(k.Name)
	want, err := ScratchFor(in, r.settings)
	if err != nil {
		return err
	}
	if err := r.scratchSp.Apply(tx, partMeta(k.Name, finScratch), want); err != nil {
		return err
	}
	now, _ := r.scratches.GetIn(tx, k.Name)
	scratchReady := now.Status.Conditions.IsReady(now.Generation)
	if p.container == nil && !scratchReady {
		return nil // the engine refuses mounts whose source is missing
	}
	c, err := ContainerFor(in, r.settings)
	if err != nil {
		return err
	}
	c.Run = scratchReady && id != "" || same && p.container.Spec.Run
	return r.contSpec.Apply(tx, partMeta(k.Name, finContainer), c)
}

// input is what the plan follows from.
func (p parts) input() planInput {
	return planInput{kernel: p.k, session: p.session, image: p.image, binding: p.binding}
}

func (p parts) bindingReady() bool {
	return p.binding != nil && p.binding.Status.Conditions.IsReady(p.binding.Generation)
}

func (p parts) networkReady() bool {
	if p.session == nil || len(p.session.Status.Hosts) == 0 {
		return false
	}
	switch p.session.Spec.Network.Mode {
	case apis.NetworkBridge, apis.NetworkOverlay:
		return p.network != nil && p.network.Status.Conditions.IsReady(p.network.Generation)
	case apis.NetworkDefault, apis.NetworkHost:
	}
	return true
}

// observe writes the kernel's status, and the event of a phase that begins.
func (r *Kernel) observe(tx *controller.Tx, p parts, ready bool) error {
	k := p.k
	facts := apis.Parts{
		ImageReady:   p.image != nil && p.image.Status.Conditions.IsReady(p.image.Generation),
		Pulling:      p.image != nil && p.image.Status.Pulling,
		BindingReady: p.bindingReady(), NetworkReady: p.networkReady(),
		ContainerRunning: ready, RunnerReady: ready,
	}
	last := k.Status.Phase
	if k.Status.Incarnation != k.Spec.Incarnation {
		last = ""
	}
	phase := apis.PhaseOf(facts, last)
	var st apis.KernelStatus
	err := r.status.Observe(tx, k.Name, func(_ *apis.Meta, s *apis.KernelStatus) {
		if s.CreatedAt.IsZero() {
			s.CreatedAt = time.Now().UTC()
		}
		if s.Incarnation != k.Spec.Incarnation {
			s.StartBy, s.StartedAt, s.ExitCode = time.Time{}, time.Time{}, nil
		}
		s.Phase, s.Incarnation = phase, k.Spec.Incarnation
		if p.bindingReady() && facts.ImageReady && p.session != nil {
			s.Allocations, s.Host = p.binding.Status.Allocations, r.settings.KernelHost
			s.ServicePorts = servicePorts(p.input())
		}
		if p.container != nil {
			s.ContainerID = p.container.Status.ID
		}
		switch {
		case ready:
			if s.StartedAt.IsZero() {
				s.StartedAt = time.Now().UTC()
			}
			s.StartBy = time.Time{}
			s.Conditions.SetReady(k.Generation)
		case facts.Pulling:
			s.StartBy = time.Time{}
			s.Conditions.SetNotReady(k.Generation, apis.ReasonImagePull, p.waitingFor())
		default:
			if s.StartBy.IsZero() {
				s.StartBy = time.Now().UTC().Add(r.settings.StartTimeout)
			}
			s.Conditions.SetNotReady(k.Generation, apis.ReasonWaiting, p.waitingFor())
		}
		st = *s
	})
	if err != nil || phase == last {
		return err
	}
	return r.tell(tx, p.k, phase, st)
}

// waitingFor says in a few words what the kernel lacks, and why it has to wait.
func (p parts) waitingFor() string {
	what := "waiting for the runner inside it"
	var lacks apis.Conditions
	switch {
	case p.image == nil || !p.image.Status.Conditions.IsReady(p.image.Generation):
		what = "waiting for its image"
		if p.image != nil {
			lacks = p.image.Status.Conditions
			if p.image.Status.Progress != "" {
				what = "pulling its image: " + p.image.Status.Progress
			}
		}
	case !p.bindingReady():
		what = "waiting for devices and ports"
		if p.binding != nil {
			lacks = p.binding.Status.Conditions
		}
	case !p.networkReady():
		what = "waiting for its network"
		if p.network != nil {
			if c, ok := p.network.Status.Conditions.Get(apis.Ready); ok && !c.Status && c.Message != "" {
				return what + ": " + c.Message
			}
		}
	case p.container == nil:
		what = "creating its container"
		if p.scratch != nil {
			lacks = p.scratch.Status.Conditions
		}
	case p.container.Status.State != apis.ContainerRunning:
		what = "starting its container"
		if p.container.Status.ID == "" {
			what = "creating its container"
		}
		lacks = p.container.Status.Conditions
	}
	if c, ok := lacks.Get(apis.Ready); ok && c.Reason == apis.ReasonRetrying {
		what += ": " + c.Message
	}
	return what
}

// tell adds the event of a phase that begins. A restart is not reported as a
// new creation (26.8).
func (r *Kernel) tell(tx *controller.Tx, k *apis.Kernel, phase apis.Phase, st apis.KernelStatus) error {
	e := apis.EventSpec{KernelID: k.Name, SessionID: k.Spec.SessionID}
	again := k.Spec.Incarnation > 1
	switch phase {
	case apis.PhasePreparing:
		e.Type = apis.EventKernelPreparing
	case apis.PhasePulling:
		e.Type, e.Reason = apis.EventKernelPulling, k.Spec.Image.Canonical
	case apis.PhaseCreating:
		e.Type = apis.EventKernelCreating
	case apis.PhaseRunning:
		e.Type, e.Kernel, again = apis.EventKernelStarted, &st, false
	case apis.PhaseTerminating:
		e.Type, e.Reason, e.Message, again = apis.EventKernelTerminating, k.DeleteReason, k.DeleteMessage, false
	case apis.PhaseTerminated:
		e.Type, e.Reason, e.Message, again = apis.EventKernelTerminated, k.DeleteReason, k.DeleteMessage, false
		e.ExitCode = st.ExitCode
	}
	if again || k.Spec.SuppressEvents && !phase.Before(apis.PhaseTerminating) {
		return nil
	}
	return r.outbox.Add(tx, e)
}

// end lets the kernel go by its own doing: its container ended, or it cannot start.
func (r *Kernel) end(k *apis.Kernel, reason, msg string, code *int) error {
	return r.store.Commit(func(tx *controller.Tx) error {
		err := r.status.Observe(tx, k.Name, func(_ *apis.Meta, st *apis.KernelStatus) {
			st.Ended, st.EndedMessage = reason, msg
			if code != nil {
				st.ExitCode = code
			}
			if reason == apis.ReasonFailedToCreate || reason == apis.ReasonFailedToStart {
				st.Conditions.SetStalled(k.Generation, reason, msg)
			}
		})
		if err != nil {
			return err
		}
		r.gone.Delete(tx, k.Name, reason, msg)
		return nil
	})
}

// Report shows an error in the kernel's conditions.
func (r *Kernel) Report(name string, err error) {
	_ = r.store.Commit(func(tx *controller.Tx) error {
		return r.status.Observe(tx, name, func(m *apis.Meta, st *apis.KernelStatus) { setError(&st.Conditions, m, err) })
	})
}
