// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"agentd/pkg/apis"
)

// Change is one thing that was done to a node.
type Change struct {
	// Op is create, start, stop, remove, pull or write.
	Op string `json:"op"`
	// Kind is container, network, image or scratch.
	Kind apis.Kind `json:"kind"`
	Name string    `json:"name"`
	// Detail says what about it, for people.
	Detail string `json:"detail,omitempty"`
}

// String returns "op kind name detail".
func (c Change) String() string {
	return strings.TrimSpace(c.Op + " " + string(c.Kind) + " " + c.Name + " " + c.Detail)
}

// Journal notes what is done to a node. It looks before each change, to tell
// what was there already: it is for repairs, not for the daemon.
type Journal struct {
	mu      sync.Mutex
	changes []Change
	names   map[string]string // container ID → engine name
}

// NewJournal returns an empty journal.
func NewJournal() *Journal { return &Journal{names: map[string]string{}} }

// Over returns the node with the journal between it and its user.
func (j *Journal) Over(n Node) Node {
	n.Containers = journalContainers{n.Containers, j}
	n.Networks = journalNetworks{n.Networks, j}
	n.Images = journalImages{n.Images, j}
	n.Scratches = journalScratches{n.Scratches, j}
	return n
}

// Changes returns what was done so far, oldest first.
func (j *Journal) Changes() []Change {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.changes)
}

func (j *Journal) add(op string, kind apis.Kind, name, detail string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.changes = append(j.changes, Change{Op: op, Kind: kind, Name: name, Detail: detail})
}

func (j *Journal) call(id, name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.names[id] = name
}

func (j *Journal) name(id string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.names[id]; n != "" {
		return n
	}
	return id
}

type journalContainers struct {
	Containers
	j *Journal
}

func (c journalContainers) Find(ctx context.Context, name string) (ContainerState, bool, error) {
	s, ok, err := c.Containers.Find(ctx, name)
	if ok {
		c.j.call(s.ID, s.EngineName)
	}
	return s, ok, err
}

func (c journalContainers) Create(ctx context.Context, spec apis.ContainerSpec) (string, error) {
	id, err := c.Containers.Create(ctx, spec)
	if err == nil {
		c.j.call(id, spec.EngineName)
		c.j.add("create", apis.KindContainer, spec.EngineName, "")
	}
	return id, err
}

func (c journalContainers) Start(ctx context.Context, id string) error {
	err := c.Containers.Start(ctx, id)
	if err == nil {
		c.j.add("start", apis.KindContainer, c.j.name(id), "")
	}
	return err
}

func (c journalContainers) Stop(ctx context.Context, id string, grace time.Duration) error {
	name := c.j.name(id)
	before, found, ferr := c.Containers.Find(ctx, name)
	err := c.Containers.Stop(ctx, id, grace)
	if err == nil && ferr == nil && found && before.State == apis.ContainerRunning {
		c.j.add("stop", apis.KindContainer, name, "")
	}
	return err
}

func (c journalContainers) Remove(ctx context.Context, id string) error {
	err := c.Containers.Remove(ctx, id)
	if err == nil {
		c.j.add("remove", apis.KindContainer, c.j.name(id), "")
	}
	return err
}

type journalNetworks struct {
	Networks
	j *Journal
}

// has tells whether our network of that name is there; unknown counts as there.
func (n journalNetworks) has(ctx context.Context, name string) bool {
	all, err := n.List(ctx)
	return err != nil || slices.ContainsFunc(all, func(s NetworkState) bool { return s.Name == name })
}

func (n journalNetworks) Ensure(ctx context.Context, name string, spec apis.NetworkSpec) (string, error) {
	had := spec.External || n.has(ctx, name)
	id, err := n.Networks.Ensure(ctx, name, spec)
	if err == nil && !had {
		n.j.add("create", apis.KindNetwork, name, spec.Driver)
	}
	return id, err
}

func (n journalNetworks) Remove(ctx context.Context, name string) error {
	had := n.has(ctx, name)
	err := n.Networks.Remove(ctx, name)
	if err == nil && had {
		n.j.add("remove", apis.KindNetwork, name, "")
	}
	return err
}

type journalImages struct {
	Images
	j *Journal
}

func (i journalImages) Pull(ctx context.Context, ref apis.ImageRef, progress func(string)) error {
	err := i.Images.Pull(ctx, ref, progress)
	if err == nil {
		i.j.add("pull", apis.KindImage, ref.Canonical, "")
	}
	return err
}

type journalScratches struct {
	Scratches
	j *Journal
}

func (s journalScratches) Ensure(ctx context.Context, name string, spec apis.ScratchSpec) (string, bool, error) {
	all, lerr := s.List(ctx)
	had := lerr != nil || slices.Contains(all, name)
	differs := s.differing(ctx, name, spec)
	path, changed, err := s.Scratches.Ensure(ctx, name, spec)
	switch {
	case err != nil || !changed:
	case !had:
		s.j.add("create", apis.KindScratch, name, "")
	default:
		detail := "owner or mode differs"
		if len(differs) > 0 {
			detail = "rewrite " + strings.Join(differs, ", ") + ": content differs"
		}
		s.j.add("write", apis.KindScratch, name, detail)
	}
	return path, changed, err
}

// differing lists the files that have to be written.
func (s journalScratches) differing(ctx context.Context, name string, want apis.ScratchSpec) []string {
	var out []string
	for _, f := range want.Files {
		b, err := s.Read(ctx, name, f.Path)
		if err != nil || !f.Once && string(b) != f.Content.Reveal() {
			out = append(out, f.Path)
		}
	}
	return out
}

func (s journalScratches) Remove(ctx context.Context, name string) error {
	all, lerr := s.List(ctx)
	err := s.Scratches.Remove(ctx, name)
	if err == nil && lerr == nil && slices.Contains(all, name) {
		s.j.add("remove", apis.KindScratch, name, "")
	}
	return err
}
