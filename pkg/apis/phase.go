// SPDX-License-Identifier: Apache-2.0

package apis

// Phase is a kernel's state in the manager's words. It only moves forward
// within an incarnation.
type Phase string

// The phases, in order.
const (
	PhasePreparing   Phase = "Preparing"
	PhasePulling     Phase = "Pulling"
	PhaseCreating    Phase = "Creating"
	PhaseRunning     Phase = "Running"
	PhaseTerminating Phase = "Terminating"
	PhaseTerminated  Phase = "Terminated"
)

// rank orders the phases; an unknown phase comes before all of them.
func (p Phase) rank() int {
	switch p {
	case PhasePreparing:
		return 1
	case PhasePulling:
		return 2
	case PhaseCreating:
		return 3
	case PhaseRunning:
		return 4
	case PhaseTerminating:
		return 5
	case PhaseTerminated:
		return 6
	}
	return 0
}

// Before reports whether p comes earlier in a kernel's life than q.
func (p Phase) Before(q Phase) bool { return p.rank() < q.rank() }

// Parts are the facts about a kernel that its phase follows from.
type Parts struct {
	// Deleting: the kernel shall go, has stalled, or its container ended.
	Deleting bool
	// PartsLeft: something of it is still on the node.
	PartsLeft bool
	// ImageReady, BindingReady, NetworkReady: what the container needs is there.
	ImageReady   bool
	BindingReady bool
	NetworkReady bool
	// Pulling: the image is being pulled.
	Pulling bool
	// ContainerRunning and RunnerReady: the container runs and its runner answered.
	ContainerRunning bool
	RunnerReady      bool
}

// PhaseOf derives the phase from the parts; last is the phase so far, and the
// result never comes before it.
func PhaseOf(p Parts, last Phase) Phase {
	var now Phase
	switch {
	case p.Deleting && !p.PartsLeft:
		now = PhaseTerminated
	case p.Deleting:
		now = PhaseTerminating
	case p.ContainerRunning && p.RunnerReady:
		now = PhaseRunning
	case p.ImageReady && p.BindingReady && p.NetworkReady:
		now = PhaseCreating
	case !p.ImageReady && p.Pulling:
		now = PhasePulling
	default:
		now = PhasePreparing
	}
	if now.Before(last) {
		return last
	}
	return now
}
