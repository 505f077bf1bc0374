// SPDX-License-Identifier: Apache-2.0

package apis

import "time"

// Container says that an engine container exists, created or running. Its
// name is the kernel ID; the engine's name is in the spec.
type Container = Object[ContainerSpec, ContainerStatus]

// ContainerSpec is the whole body in agentd's words.
type ContainerSpec struct {
	// EngineName is the container's name in the engine: kernel.IMAGE.KERNELID.
	EngineName string `json:"engineName"`
	// Incarnation of the kernel that the container is for.
	Incarnation int64 `json:"incarnation"`
	// Run: the container shall be started (once). False: created is enough.
	Run bool `json:"run,omitempty"`
	// Stop: the container shall end; it stays so that its exit code and log can be read.
	Stop bool `json:"stop,omitempty"`

	Image      string            `json:"image"`
	Hostname   string            `json:"hostname,omitempty"`
	User       string            `json:"user,omitempty"`
	WorkingDir string            `json:"workingDir,omitempty"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	Cmd        []string          `json:"cmd,omitempty"`
	Env        []string          `json:"env,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Mounts     []Mount           `json:"mounts,omitempty"`
	Ports      []PortLease       `json:"ports,omitempty"`
	// ExposedPorts are reachable inside the session's network only.
	ExposedPorts []int `json:"exposedPorts,omitempty"`

	// NetworkMode is the engine's network name, "host", or empty for the default bridge.
	NetworkMode string            `json:"networkMode,omitempty"`
	Aliases     []string          `json:"aliases,omitempty"`
	EndpointOpt map[string]string `json:"endpointOpt,omitempty"`
	ExtraHosts  []string          `json:"extraHosts,omitempty"`

	CpusetCpus  string   `json:"cpusetCpus,omitempty"`
	MemoryBytes int64    `json:"memoryBytes,omitempty"`
	ShmBytes    int64    `json:"shmBytes,omitempty"`
	Ulimits     []Ulimit `json:"ulimits,omitempty"`
	CapAdd      []string `json:"capAdd,omitempty"`
	SecurityOpt []string `json:"securityOpt,omitempty"`
	Devices     []string `json:"devices,omitempty"`

	StopSignal string `json:"stopSignal,omitempty"`
	// StopGrace is how long a stop waits before it kills.
	StopGrace time.Duration `json:"stopGrace,omitempty"`
	// LogMaxBytes bounds the container's log.
	LogMaxBytes int64 `json:"logMaxBytes,omitempty"`
}

// Ulimit is one resource limit; -1 is unlimited.
type Ulimit struct {
	Name string `json:"name"`
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// ContainerState is the engine's word for what a container does.
type ContainerState string

// The states. Gone is agentd's own: it ran once and the engine no longer has it.
const (
	ContainerCreated ContainerState = "created"
	ContainerRunning ContainerState = "running"
	ContainerExited  ContainerState = "exited"
	ContainerGone    ContainerState = "gone"
)

// ContainerStatus is what is seen of it.
type ContainerStatus struct {
	Conditions Conditions     `json:"conditions,omitempty"`
	ID         string         `json:"id,omitempty"`
	State      ContainerState `json:"state,omitempty"`
	// Hash is the hash of the spec that the container was made from.
	Hash string `json:"hash,omitempty"`
	// Incarnation is the one that the container seen belongs to.
	Incarnation int64 `json:"incarnation,omitempty"`
	// StartedFor is the incarnation whose start was decided. It is on disk before the start.
	StartedFor int64 `json:"startedFor,omitempty"`
	ExitCode   *int  `json:"exitCode,omitempty"`
	OOMKilled  bool  `json:"oomKilled,omitempty"`
	// Error is the engine's own word on why it ended.
	Error string `json:"error,omitempty"`
	// MissingSince is when a direct look first found it absent although it had been started.
	MissingSince time.Time `json:"missingSince,omitzero"`
	// PortInUse is the host port that kept it from starting; 0 for none, -1 for one that the engine did not name.
	PortInUse int `json:"portInUse,omitempty"`
	// Attempts counts creations and starts that the engine refused.
	Attempts int `json:"attempts,omitempty"`
	// StopError is why the engine did not stop it; it is removed by force then.
	StopError string `json:"stopError,omitempty"`
	// LogsKept tells that its log was saved after it ended.
	LogsKept bool `json:"logsKept,omitempty"`
}
