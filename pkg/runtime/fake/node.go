// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

type containers struct{ w *World }

func (v containers) Find(_ context.Context, name string) (runtime.ContainerState, bool, error) {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	c, ok := v.w.containers[name]
	if !ok {
		return runtime.ContainerState{}, false, nil
	}
	return c.ContainerState, true, nil
}

func (v containers) List(context.Context) ([]runtime.ContainerState, error) {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	v.w.lists++
	return v.w.list(), nil
}

func (v containers) Create(ctx context.Context, spec apis.ContainerSpec) (string, error) {
	var id string
	ch := Change{Op: "create", Kind: apis.KindContainer, Name: spec.EngineName, Detail: fmt.Sprintf("image %s, incarnation %d", spec.Image, spec.Incarnation)}
	err := v.w.change(ctx, ch, func() error {
		if _, taken := v.w.containers[spec.EngineName]; taken {
			return fmt.Errorf("container name %s is taken: %w", spec.EngineName, apis.ErrConflict)
		}
		if m := spec.NetworkMode; m != "" && m != "host" && m != "bridge" {
			if _, ok := v.w.networks[m]; !ok {
				return fmt.Errorf("network %s: %w", m, apis.ErrNotFound)
			}
		}
		for _, m := range spec.Mounts {
			if id, ok := strings.CutPrefix(m.Source, v.w.root+"/"); ok {
				id, _, _ = strings.Cut(id, "/")
				if _, ok := v.w.scratches[id]; !ok {
					return apis.Terminalf(apis.ReasonMountMissing, "mount source %s does not exist", m.Source)
				}
			}
		}
		v.w.seq++
		id = fmt.Sprintf("c%06d", v.w.seq)
		v.w.containers[spec.EngineName] = &container{spec: spec, ContainerState: runtime.ContainerState{
			ID: id, EngineName: spec.EngineName,
			KernelID: spec.Labels[apis.LabelKernelID], SessionID: spec.Labels[apis.LabelSessionID],
			Incarnation: spec.Incarnation, Hash: apis.ContainerHash(spec), State: apis.ContainerCreated,
			Image: spec.Image, Labels: spec.Labels, Ports: spec.Ports, CreatedAt: time.Now(),
		}}
		return nil
	})
	return id, err
}

// byID finds a container; the caller holds the lock.
func (v containers) byID(id string) *container {
	for _, c := range v.w.containers {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// name is what the log calls the container of that ID.
func (v containers) name(id string) string {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	if c := v.byID(id); c != nil {
		return c.EngineName
	}
	return id
}

func (v containers) Start(ctx context.Context, id string) error {
	return v.w.change(ctx, Change{Op: "start", Kind: apis.KindContainer, Name: v.name(id)}, func() error {
		c := v.byID(id)
		switch {
		case c == nil:
			return fmt.Errorf("container %s: %w", id, apis.ErrNotFound)
		case c.State == apis.ContainerRunning:
			return nil
		case c.State == apis.ContainerExited:
			v.w.violate("%s was started again after it had ended", c.EngineName)
		}
		for _, o := range v.w.containers {
			for _, p := range o.Ports {
				if o != c && o.State == apis.ContainerRunning && slices.ContainsFunc(c.Ports, func(q apis.PortLease) bool { return q.Host == p.Host }) {
					v.w.violate("port %d is held by %s and %s", p.Host, o.EngineName, c.EngineName)
					return &apis.PortInUseError{Port: p.Host, Err: fmt.Errorf("port %d is already allocated", p.Host)}
				}
			}
		}
		key := fmt.Sprintf("%s/%d", c.KernelID, c.Incarnation)
		if v.w.starts[key]++; v.w.starts[key] > 1 {
			v.w.violate("%s was started %d times", key, v.w.starts[key])
		}
		c.State = apis.ContainerRunning
		return nil
	})
}

func (v containers) Stop(ctx context.Context, id string, _ time.Duration) error {
	name := v.name(id)
	v.w.mu.Lock()
	c := v.byID(id)
	idle := c == nil || c.State != apis.ContainerRunning
	v.w.mu.Unlock()
	if idle {
		return nil
	}
	return v.w.change(ctx, Change{Op: "stop", Kind: apis.KindContainer, Name: name}, func() error {
		if c := v.byID(id); c != nil && c.State == apis.ContainerRunning {
			v.w.detach(c)
			c.State = apis.ContainerExited
		}
		return nil
	})
}

func (v containers) Remove(ctx context.Context, id string) error {
	return v.w.change(ctx, Change{Op: "remove", Kind: apis.KindContainer, Name: v.name(id)}, func() error {
		if c := v.byID(id); c != nil {
			v.w.detach(c)
			delete(v.w.containers, c.EngineName)
		}
		return nil
	})
}

func (v containers) Logs(context.Context, string, runtime.LogOptions) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}

type networks struct{ w *World }

func (v networks) Ensure(ctx context.Context, name string, spec apis.NetworkSpec) (string, error) {
	v.w.mu.Lock()
	n, ok := v.w.networks[name]
	v.w.mu.Unlock()
	switch {
	case ok:
		return n.ID, nil
	case spec.External:
		return "", fmt.Errorf("network %s: %w", name, apis.ErrNotFound)
	}
	var id string
	err := v.w.change(ctx, Change{Op: "create", Kind: apis.KindNetwork, Name: name, Detail: spec.Driver}, func() error {
		if n, ok := v.w.networks[name]; ok {
			id = n.ID
			return nil
		}
		v.w.seq++
		id = fmt.Sprintf("n%06d", v.w.seq)
		v.w.networks[name] = &network{NetworkState: runtime.NetworkState{
			ID: id, Name: name, Driver: spec.Driver, SessionID: spec.SessionID, CreatedAt: time.Now(),
		}}
		return nil
	})
	return id, err
}

func (v networks) Remove(ctx context.Context, name string) error {
	v.w.mu.Lock()
	_, ok := v.w.networks[name]
	v.w.mu.Unlock()
	if !ok {
		return nil
	}
	return v.w.change(ctx, Change{Op: "remove", Kind: apis.KindNetwork, Name: name}, func() error {
		if n := v.w.endpoints(name); n > 0 {
			return fmt.Errorf("network %s has %d endpoints: %w", name, n, apis.ErrConflict)
		}
		delete(v.w.networks, name)
		return nil
	})
}

func (v networks) List(context.Context) ([]runtime.NetworkState, error) {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	var out []runtime.NetworkState
	for _, name := range slices.Sorted(maps.Keys(v.w.networks)) {
		n := v.w.networks[name]
		s := n.NetworkState
		s.Endpoints = v.w.endpoints(name)
		out = append(out, s)
	}
	return out, nil
}

type images struct{ w *World }

func (v images) Inspect(ctx context.Context, ref string) (runtime.ImageState, bool, error) {
	v.w.mu.Lock()
	img, ok := v.w.images[ref]
	origin := v.w.real
	v.w.mu.Unlock()
	if !ok && origin != nil {
		return origin.Images.Inspect(ctx, ref)
	}
	return img, ok, nil
}

func (v images) Pull(ctx context.Context, ref apis.ImageRef, _ func(string)) error {
	return v.w.change(ctx, Change{Op: "pull", Kind: apis.KindImage, Name: ref.Canonical}, func() error {
		v.w.images[ref.Canonical] = runtime.ImageState{ID: ref.Digest, Architecture: ref.Architecture}
		return nil
	})
}

type scratches struct{ w *World }

func (v scratches) Path(name string) string {
	if v.w.real != nil {
		return v.w.real.Scratches.Path(name)
	}
	return path.Join(v.w.root, name)
}

func (v scratches) Ensure(ctx context.Context, name string, spec apis.ScratchSpec) (string, bool, error) {
	v.w.mu.Lock()
	have, ok := v.w.scratches[name]
	origin := v.w.real
	v.w.mu.Unlock()
	diff := differing(have, spec)
	if ok && origin != nil && len(have.Files) == 0 {
		var err error
		if diff, err = origin.Scratches.Differing(ctx, name, spec); err != nil {
			return "", false, err
		}
	}
	if ok && len(diff) == 0 {
		return v.Path(name), false, nil
	}
	ch := Change{Op: "create", Kind: apis.KindScratch, Name: name, Detail: fmt.Sprintf("%d files", len(spec.Files))}
	if ok {
		ch.Op, ch.Detail = "write", strings.Join(diff, " ")+": content differs"
	}
	err := v.w.change(ctx, ch, func() error {
		v.w.scratches[name] = spec
		return nil
	})
	return v.Path(name), true, err
}

// differing lists the files that have to be written.
func differing(have, want apis.ScratchSpec) []string {
	old := map[string]apis.ScratchFile{}
	for _, f := range have.Files {
		old[f.Path] = f
	}
	var out []string
	for _, f := range want.Files {
		if o, ok := old[f.Path]; !ok || o.Content != f.Content && !f.Once {
			out = append(out, f.Path)
		}
	}
	return out
}

func (v scratches) Differing(ctx context.Context, name string, spec apis.ScratchSpec) ([]string, error) {
	v.w.mu.Lock()
	have, ok := v.w.scratches[name]
	origin := v.w.real
	v.w.mu.Unlock()
	switch {
	case !ok:
		return []string{"."}, nil
	case origin != nil && len(have.Files) == 0:
		return origin.Scratches.Differing(ctx, name, spec)
	}
	return differing(have, spec), nil
}

func (v scratches) Remove(ctx context.Context, name string) error {
	v.w.mu.Lock()
	_, ok := v.w.scratches[name]
	v.w.mu.Unlock()
	if !ok {
		return nil
	}
	return v.w.change(ctx, Change{Op: "remove", Kind: apis.KindScratch, Name: name}, func() error {
		for _, c := range v.w.containers {
			if c.KernelID == name && c.State == apis.ContainerRunning {
				v.w.violate("scratch of %s was removed under its running container", name)
			}
		}
		delete(v.w.scratches, name)
		return nil
	})
}

func (v scratches) List(context.Context) ([]string, error) { return v.w.Scratches(), nil }

func (v scratches) Read(ctx context.Context, name, file string) ([]byte, error) {
	v.w.mu.Lock()
	s, ok := v.w.scratches[name]
	origin := v.w.real
	v.w.mu.Unlock()
	for _, f := range s.Files {
		if f.Path == file {
			return []byte(f.Content.Reveal()), nil
		}
	}
	if ok && origin != nil {
		return origin.Scratches.Read(ctx, name, file)
	}
	return nil, fmt.Errorf("scratch file %s/%s: %w", name, file, apis.ErrNotFound)
}

type runner struct{ w *World }

func (v runner) WaitReady(_ context.Context, kernelID string) error {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	for _, c := range v.w.containers {
		if c.KernelID == kernelID && c.State == apis.ContainerRunning {
			return nil
		}
	}
	return fmt.Errorf("runner of kernel %s: %w", kernelID, apis.ErrUnavailable)
}

type logs struct{ w *World }

func (v logs) Save(_ context.Context, kernelID string, r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	v.w.logs[kernelID] = b
	return nil
}

func (v logs) Open(kernelID string) (io.ReadCloser, error) {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	b, ok := v.w.logs[kernelID]
	if !ok {
		return nil, fmt.Errorf("log of kernel %s: %w", kernelID, apis.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}
