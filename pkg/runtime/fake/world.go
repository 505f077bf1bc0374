// SPDX-License-Identifier: Apache-2.0

// Package fake is a small node in memory that behaves: names conflict, a
// network in use cannot be removed, containers end when told, every change is
// written to a log, and any change can be answered with "not done" or with
// "done, but the answer was lost". Tests run reconcilers against it, and so
// does the dry run, on a copy of the real node.
package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

// Change is one thing that was done to the world.
type Change = runtime.Change

// Outcome is what a fault makes of a change.
type Outcome int

// The outcomes: the change works, it is not done, it is done but the answer is lost.
const (
	Works Outcome = iota
	NotDone
	AnswerLost
)

// World is the node. Use [World.Node] to give it to reconcilers.
type World struct {
	// Fault, when set, decides about every change. It must not call the world.
	Fault func(Change) Outcome
	// Refuse, when set, makes a change fail with an error of the engine's own.
	Refuse func(Change) error
	// Delay is how long every change takes.
	Delay time.Duration

	mu         sync.Mutex
	containers map[string]*container // by engine name
	networks   map[string]*network   // by name
	images     map[string]runtime.ImageState
	scratches  map[string]apis.ScratchSpec
	logs       map[string][]byte
	log        []Change
	violations []string
	starts     map[string]int // by kernel ID and incarnation
	lists      int
	seq        int
	real       *runtime.Node // where a copy came from: read only
	root       string
}

type container struct {
	runtime.ContainerState
	spec apis.ContainerSpec
}

type network struct{ runtime.NetworkState }

// New returns an empty world with the given images, by reference.
func New(images map[string]runtime.ImageState) *World {
	return &World{
		containers: map[string]*container{},
		networks:   map[string]*network{},
		images:     maps.Clone(images),
		scratches:  map[string]apis.ScratchSpec{},
		logs:       map[string][]byte{},
		starts:     map[string]int{},
		root:       "/scratch",
	}
}

// CopyOf returns a world that looks like the real node. It keeps reading
// images and scratch files from it, and never writes.
func CopyOf(ctx context.Context, node runtime.Node) (*World, error) {
	w := New(map[string]runtime.ImageState{})
	w.real = &node
	cs, err := node.Containers.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("copying the node's containers: %w", err)
	}
	for _, c := range cs {
		w.containers[c.EngineName] = &container{ContainerState: c}
	}
	ns, err := node.Networks.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("copying the node's networks: %w", err)
	}
	for _, n := range ns {
		w.networks[n.Name] = &network{NetworkState: n}
	}
	ss, err := node.Scratches.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("copying the node's scratches: %w", err)
	}
	for _, s := range ss {
		w.scratches[s] = apis.ScratchSpec{}
	}
	return w, nil
}

// Node returns the world as reconcilers see it.
func (w *World) Node() runtime.Node {
	return runtime.Node{
		Containers: containers{w}, Networks: networks{w}, Images: images{w},
		Scratches: scratches{w}, Runner: runner{w}, Logs: logs{w},
	}
}

// Log returns what was done so far, oldest first.
func (w *World) Log() []Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// Violations returns what was done that must never be done.
func (w *World) Violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.violations)
}

// Starts returns how often each incarnation of a kernel was started, by "kernel/incarnation".
func (w *World) Starts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.starts)
}

// Lists returns how often the containers were listed.
func (w *World) Lists() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists
}

// Scratches returns the names of the scratches.
func (w *World) Scratches() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.scratches))
}

// Networks returns the names of our networks.
func (w *World) Networks() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.networks))
}

// Containers returns the state of every container, by engine name.
func (w *World) Containers() []runtime.ContainerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list()
}

// Exit lets the kernel's running container end by itself; false if none runs.
func (w *World) Exit(kernelID string, code int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.containers {
		if c.KernelID == kernelID && c.State == apis.ContainerRunning {
			c.State, c.ExitCode = apis.ContainerExited, code
			return true
		}
	}
	return false
}

// Vanish removes the kernel's container behind everybody's back and returns the
// state that it was in; empty if there is none.
func (w *World) Vanish(kernelID string) apis.ContainerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, c := range w.containers {
		if c.KernelID == kernelID {
			delete(w.containers, name)
			return c.State
		}
	}
	return ""
}

// DropNetwork removes a network behind everybody's back; false if it is in use or absent.
func (w *World) DropNetwork(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.networks[name]; !ok || w.endpoints(name) > 0 {
		return false
	}
	delete(w.networks, name)
	return true
}

// DropScratch removes a scratch behind everybody's back.
func (w *World) DropScratch(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.scratches, name)
}

// Put adds a container as if somebody had made it by hand.
func (w *World) Put(c runtime.ContainerState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.containers[c.EngineName] = &container{ContainerState: c}
}

// change runs do as one change under the world's rules.
func (w *World) change(ctx context.Context, c Change, do func() error) error {
	if w.Delay > 0 {
		t := time.NewTimer(w.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out := Works
	if w.Fault != nil {
		out = w.Fault(c)
	}
	if w.Refuse != nil {
		if err := w.Refuse(c); err != nil {
			return err
		}
	}
	if out == NotDone {
		return fmt.Errorf("%s: %w: not done", c, apis.ErrUnavailable)
	}
	if err := do(); err != nil {
		return err
	}
	w.log = append(w.log, c)
	if out == AnswerLost {
		return fmt.Errorf("%s: %w: answer lost", c, apis.ErrUnavailable)
	}
	return nil
}

// violate notes something that must never happen.
func (w *World) violate(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// endpoints counts the containers attached to a network.
func (w *World) endpoints(name string) int {
	n := 0
	for _, c := range w.containers {
		if c.spec.NetworkMode == name && c.State == apis.ContainerRunning {
			n++
		}
	}
	if x, ok := w.networks[name]; ok && w.real != nil {
		n += x.Endpoints // of containers that were copied: their specs are not known
	}
	return n
}

// detach takes a container that was copied, and runs, off its session's network.
func (w *World) detach(c *container) {
	if w.real == nil || c.spec.EngineName != "" || c.State != apis.ContainerRunning {
		return
	}
	for _, n := range w.networks {
		if n.SessionID != "" && n.SessionID == c.SessionID {
			n.Endpoints = max(0, n.Endpoints-1)
		}
	}
}

func (w *World) list() []runtime.ContainerState {
	out := make([]runtime.ContainerState, 0, len(w.containers))
	for _, name := range slices.Sorted(maps.Keys(w.containers)) {
		out = append(out, w.containers[name].ContainerState)
	}
	return out
}
