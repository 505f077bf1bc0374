// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"agentd/pkg/apis"
	"agentd/pkg/netplan"
)

// Amounts of a session file that gives none.
const (
	defaultCPU = "1"
	defaultMem = "256m"
)

// addKernels makes the kernels of all roles, in the order of their hosts, with
// the variables that the manager would give them (26.8). Those win over the
// user's own.
func addKernels(s *Session, roles []fileReplica, d *decoder) {
	hosts, err := netplan.Hosts(s.Spec.Replicas)
	if err != nil {
		d.p.add(d.line("spec.replicas"), "spec.replicas", "%s", err)
		return
	}
	byRole := map[string]*fileReplica{}
	for i := range roles {
		byRole[roles[i].Role] = &roles[i]
	}
	preopen := portList(byRole[mainRole].PreopenPorts)
	for _, h := range hosts {
		id := KernelID(s.ID, h.Name)
		if id == "" { // the session ID is no UUID, and reported as such
			return
		}
		k := byRole[h.Role].kernel()
		k.SessionID, k.SessionType, k.Incarnation = s.ID, "interactive", 1
		k.ClusterRole, k.ClusterIdx, k.LocalRank, k.Hostname = h.Role, h.Index, h.LocalRank, h.Name
		cluster, err := netplan.ClusterEnv(s.Spec.Replicas, h)
		if err != nil {
			d.p.add(d.line("spec.replicas"), "spec.replicas", "%s", err)
			return
		}
		k.Environ = merged(k.Environ, cluster)
		maps.Copy(k.Environ, map[string]string{
			"BACKENDAI_SESSION_ID": s.ID, "BACKENDAI_SESSION_NAME": s.Spec.Title,
			"BACKENDAI_KERNEL_ID": id, "BACKENDAI_KERNEL_IMAGE": k.Image.Canonical,
			// The label that fills this one is not known before the image is.
			"BACKENDAI_SERVICE_PORTS": "", "BACKENDAI_PREOPEN_PORTS": preopen,
		})
		s.Kernels[id] = k
		s.Spec.Kernels = append(s.Spec.Kernels, id)
	}
}

func portList(ports []int) string {
	texts := make([]string, len(ports))
	for i, p := range ports {
		texts[i] = strconv.Itoa(p)
	}
	return strings.Join(texts, ",")
}

// kernel is what all kernels of a role have in common.
func (k *fileReplica) kernel() apis.KernelSpec {
	out := apis.KernelSpec{
		Image: apis.ImageRef{Canonical: deref(k.Image), Architecture: deref(k.Architecture), Pull: apis.PullPolicy(deref(k.Pull))},
		Slots: map[string]string{}, Environ: merged(k.Environ, nil),
		UID: k.UID, GID: k.GID,
		// Empty lists become absent ones, as they do on their way through the checkpoint.
		Command: append([]string(nil), k.Command...), PreopenPorts: append([]int(nil), k.PreopenPorts...),
		BootstrapScript: deref(k.Bootstrap),
		Sudo:            k.Sudo != nil && *k.Sudo,
	}
	if out.Image.Pull == "" || out.Image.Pull == apis.PullNone {
		out.Image.Pull, out.Image.Local = apis.PullNone, true
	}
	for name, text := range merged(map[string]amount{"cpu": defaultCPU, "mem": defaultMem}, k.Slots) {
		out.Slots[name], _ = slotText(name, string(text)) // a bad one was reported by check
	}
	if k.Shm != nil {
		out.ShmBytes, _ = byteCount(string(*k.Shm)) // as above
	}
	for _, m := range k.Mounts {
		out.Mounts = append(out.Mounts, apis.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	for _, f := range k.Dotfiles {
		perm := f.Perm
		if perm == "" {
			perm = "0644"
		}
		out.Dotfiles = append(out.Dotfiles, apis.Dotfile{Path: f.Path, Perm: perm, Data: apis.Secret(f.Data)})
	}
	return out
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// newKeyPair makes the keys by which the kernels of a session know each other.
// The manager makes RSA keys (26.8); these are as good for every client and
// cost no time.
func newKeyPair() (apis.SSHKeyPair, error) {
	const comment = "work@cluster.backend.ai.local"
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return apis.SSHKeyPair{}, fmt.Errorf("making a cluster key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return apis.SSHKeyPair{}, fmt.Errorf("making a cluster key: %w", err)
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		return apis.SSHKeyPair{}, fmt.Errorf("making a cluster key: %w", err)
	}
	text := strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(line)), "\n") + " " + comment
	return apis.SSHKeyPair{Public: text, Private: apis.Secret(pem.EncodeToMemory(block))}, nil
}
