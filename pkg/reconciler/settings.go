// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"time"

	"agentd/pkg/apis"
)

// Settings is what the plan needs to know of the node's configuration. It does
// not change while agentd runs.
type Settings struct {
	AgentID string
	// BindHost is the host address that service ports are published on;
	// KernelHost is the address that clients are told.
	BindHost, KernelHost string
	// KernelUID and KernelGID own kernels whose request names nobody.
	KernelUID, KernelGID int
	// RunnerPath is bai-runner on the host.
	RunnerPath string
	// ScratchKind is hostdir, hostfile or memory; ScratchBytes its size where it has one.
	ScratchKind  string
	ScratchBytes int64
	// AlternativeBridge replaces the engine's default bridge for single kernels; empty: it does not.
	AlternativeBridge string
	// LogMaxBytes bounds a container's log.
	LogMaxBytes int64
	// StopGrace is how long a kernel may take to end when asked to.
	StopGrace time.Duration
	// StartTimeout is how long a kernel may take to become ready, pulls excluded.
	StartTimeout time.Duration
	// HostFiles are mounted into every kernel as they are on the host.
	HostFiles []apis.Mount
	// Ulimits of every kernel, already lowered to what the host allows.
	Ulimits []apis.Ulimit
	// ScalingGroupType is compute or storage; it decides what stays on loopback.
	ScalingGroupType string
}
