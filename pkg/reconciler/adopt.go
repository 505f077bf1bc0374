// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/runtime"
)

// ManifestFile is the name of the manifest in a kernel's scratch. It lies
// outside the directories that the kernel sees, and only root may read it.
const ManifestFile = "agentd.json"

// manifest is everything that is needed to know a kernel again after the
// checkpoint is lost.
type manifest struct {
	SessionID string                  `json:"sessionID"`
	Session   apis.ClusterSessionSpec `json:"session"`
	KernelID  string                  `json:"kernelID"`
	Kernel    apis.KernelSpec         `json:"kernel"`
	Binding   apis.BindingSpec        `json:"binding"`
	Held      apis.BindingStatus      `json:"held"`
	Container apis.ContainerSpec      `json:"container"`
}

func (m manifest) encode() (apis.Secret, error) {
	m.Held.Conditions = nil
	b, err := json.Marshal(m)
	return apis.Secret(b), err
}

// AdoptReport says what became of the containers that the store did not know.
type AdoptReport struct {
	// Adopted are kernels that were built again from their scratch.
	Adopted []string
	// LeftAlone says, by container, why it could not be.
	LeftAlone map[string]string
}

// Adopt builds kernels again for listed containers that the store does not
// know, from the manifests in their scratches. It is for a checkpoint that was
// lost: with a complete one, what the store does not know is not wanted. What
// cannot be built again is left alone, and named.
func Adopt(ctx context.Context, s *controller.Store, t *controller.Tables, node runtime.Node, listed []runtime.ContainerState) (AdoptReport, error) {
	rep := AdoptReport{LeftAlone: map[string]string{}}
	for _, c := range listed {
		if _, known := t.Containers.Reader().Get(c.KernelID); known {
			continue
		}
		m, err := readManifest(ctx, node.Scratches, c)
		if err != nil {
			rep.LeftAlone[c.EngineName] = err.Error()
			if err := leaveAlone(s, t, c, err.Error()); err != nil {
				return rep, err
			}
			continue
		}
		if err := s.Commit(func(tx *controller.Tx) error { return adoptOne(tx, t, m, c) }); err != nil {
			return rep, fmt.Errorf("adopting kernel %s: %w", c.KernelID, err)
		}
		rep.Adopted = append(rep.Adopted, c.KernelID)
	}
	return rep, nil
}

func readManifest(ctx context.Context, dirs runtime.Scratches, c runtime.ContainerState) (manifest, error) {
	var m manifest
	if c.KernelID == "" {
		return m, fmt.Errorf("container has no label %s", apis.LabelKernelID)
	}
	b, err := dirs.Read(ctx, c.KernelID, ManifestFile)
	if err != nil {
		if errors.Is(err, apis.ErrNotFound) {
			return m, fmt.Errorf("its scratch has no %s", ManifestFile)
		}
		return m, fmt.Errorf("reading its %s: %w", ManifestFile, err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("its %s is damaged: %w", ManifestFile, err)
	}
	if m.KernelID != c.KernelID || m.Container.EngineName != c.EngineName {
		return m, fmt.Errorf("its %s speaks of kernel %s in container %s", ManifestFile, m.KernelID, m.Container.EngineName)
	}
	return m, nil
}

// leaveAlone makes an object that keeps the container from being swept.
func leaveAlone(s *controller.Store, t *controller.Tables, c runtime.ContainerState, why string) error {
	name := c.KernelID
	if name == "" {
		name = c.EngineName
	}
	return s.Commit(func(tx *controller.Tx) error {
		meta := apis.Meta{Name: name, Finalizers: []string{finContainer}, Labels: map[string]string{LeftAlone: why}}
		spec := apis.ContainerSpec{EngineName: c.EngineName, Incarnation: c.Incarnation, Image: c.Image}
		if err := t.Containers.SpecWriter().Apply(tx, meta, spec); err != nil {
			return err
		}
		return t.Containers.StatusWriter().Observe(tx, name, func(_ *apis.Meta, st *apis.ContainerStatus) {
			st.ID, st.State, st.Hash, st.Incarnation = c.ID, c.State, c.Hash, c.Incarnation
		})
	})
}

// adoptOne writes the objects of a kernel as they would be had nothing been lost.
func adoptOne(tx *controller.Tx, t *controller.Tables, m manifest, c runtime.ContainerState) error {
	if err := t.Sessions.SpecWriter().Apply(tx, controller.SessionMeta(m.SessionID), m.Session); err != nil {
		return err
	}
	m.Kernel.Incarnation = c.Incarnation
	if err := t.Kernels.SpecWriter().Apply(tx, controller.KernelMeta(m.KernelID, m.SessionID), m.Kernel); err != nil {
		return err
	}
	if err := t.Bindings.SpecWriter().Apply(tx, partMeta(m.KernelID, finBinding), m.Binding); err != nil {
		return err
	}
	m.Container.Incarnation = c.Incarnation
	m.Container.Run = c.State != apis.ContainerCreated
	if err := t.Containers.SpecWriter().Apply(tx, partMeta(m.KernelID, finContainer), m.Container); err != nil {
		return err
	}
	err := t.Containers.StatusWriter().Observe(tx, m.KernelID, func(_ *apis.Meta, st *apis.ContainerStatus) {
		st.ID, st.State, st.Hash, st.Incarnation = c.ID, c.State, c.Hash, c.Incarnation
		if c.State != apis.ContainerCreated {
			st.StartedFor = c.Incarnation
		}
	})
	if err != nil {
		return err
	}
	err = t.Bindings.StatusWriter().Observe(tx, m.KernelID, func(meta *apis.Meta, st *apis.BindingStatus) {
		*st = m.Held
		if len(c.Ports) > 0 { // what the live container publishes wins
			st.Ports = mergePorts(st.Ports, c.Ports)
		}
		st.Conditions.SetReady(meta.Generation)
	})
	if err != nil {
		return err
	}
	return t.Kernels.StatusWriter().Observe(tx, m.KernelID, func(meta *apis.Meta, st *apis.KernelStatus) {
		st.Incarnation, st.ContainerID, st.CreatedAt = c.Incarnation, c.ID, c.CreatedAt
		st.Phase = apis.PhaseCreating
		if c.State == apis.ContainerRunning || c.State == apis.ContainerExited {
			st.Phase, st.StartedAt = apis.PhaseRunning, c.CreatedAt
			st.Conditions.SetReady(meta.Generation)
		}
	})
}

// mergePorts gives the leases the host ports that the container really publishes.
func mergePorts(leases, published []apis.PortLease) []apis.PortLease {
	for i, l := range leases {
		for _, p := range published {
			if p.Container == l.Container {
				leases[i].Host, leases[i].HostIP = p.Host, p.HostIP
			}
		}
	}
	return leases
}
