// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"

	"agentd/pkg/apis"
)

// Config is the effective configuration of one agent process. It is complete
// after [Load]: defaults are filled in, paths are absolute, names are resolved.
// Whoever holds it reads it only.
type Config struct {
	// Manager says whether this node belongs to a Backend.AI manager.
	Manager Manager `json:"manager"`
	// Agentd holds the keys that only agentd knows.
	Agentd Agentd `json:"agentd"`
	// Etcd is the manager's configuration store.
	Etcd Etcd `json:"etcd" use:"later"`
	// Agent is the node and its doors.
	Agent Agent `json:"agent"`
	// Container is how kernels are run.
	Container Container `json:"container"`
	// Resource is what of the node is given to kernels.
	Resource Resource `json:"resource"`
	// Agents, when not empty, are the two or more agents that share this
	// process and this node; the first one is the primary.
	Agents []AgentEntry `json:"agents" use:"later"`
	// Logging is where log records go.
	Logging Logging `json:"logging"`
	// Debug holds aids for finding faults.
	Debug Debug `json:"debug"`
	// API holds limits of the manager's calls.
	API API `json:"api"`
	// ContainerLogs is how much of a kernel's output is kept.
	ContainerLogs ContainerLogs `json:"container-logs"`
	// KernelLifecycles is how long a kernel may take to answer first.
	KernelLifecycles KernelLifecycles `json:"kernel-lifecycles" use:"later"`
	// Redis is where events and statistics go; normally taken from etcd.
	Redis *Redis `json:"redis" use:"later"`
	// Watcher configures the companion service; nil when it is not used.
	Watcher *Watcher `json:"watcher" use:"later"`
	// Pyroscope, Otel and ServiceDiscovery tell other services about the agent.
	Pyroscope        Pyroscope        `json:"pyroscope" use:"later"`
	Otel             Otel             `json:"otel" use:"later"`
	ServiceDiscovery ServiceDiscovery `json:"service-discovery" use:"later"`

	// The rest are tables of old files that nothing reads.
	License   map[string]any `json:"license,omitempty" use:"none"`
	Registry  map[string]any `json:"registry,omitempty" use:"none"`
	Baistatic map[string]any `json:"baistatic,omitempty" use:"none"`
	VfolderPV map[string]any `json:"vfolder-pv,omitempty" use:"none"`
}

// MarshalJSON writes the configuration with kebab-case keys and every secret
// masked, so that no way of printing it shows one.
func (c Config) MarshalJSON() ([]byte, error) {
	type plain Config
	return json.Marshal(apis.Redacted(plain(c)))
}

// Manager is the table [manager].
type Manager struct {
	// Enabled is false for a node that is on its own: neither etcd nor Redis
	// nor a manager is needed, and the table [etcd] may be missing.
	Enabled bool `json:"enabled"`
}

// Agentd is the table [agentd].
type Agentd struct {
	// StateDir holds the checkpoint; default: agent.var-base-path.
	StateDir Path `json:"state-dir"`
	// AdminSocket is the unix socket of the command line (mode 0600); default:
	// agentd.sock in StateDir.
	AdminSocket Path `json:"admin-socket"`
	// StartTimeout is the time from wanting a kernel to it running, pulling of
	// images excluded, after which it is given up.
	StartTimeout Duration `json:"start-timeout" range:">0.."`
	// SweepGrace is the age below which things nobody wants are left alone.
	SweepGrace Duration `json:"sweep-grace" range:"0.."`
	// StopGrace is the time a container has to end by itself.
	StopGrace Duration `json:"stop-grace" range:"0.."`
	// Runner is the bai-runner binary; empty: next to the agentd executable.
	Runner Path `json:"runner"`
	// MetricsAddr serves Prometheus metrics; nil: on the admin socket only.
	MetricsAddr *HostPort `json:"metrics-addr"`
	// LogFormat is how log records look on standard error.
	LogFormat LogFormat `json:"log-format" enum:"console|json"`
}

// LogFormat is the form of log records.
type LogFormat string

// The log formats.
const (
	LogConsole LogFormat = "console"
	LogJSON    LogFormat = "json"
)

// Etcd is the table [etcd].
type Etcd struct {
	// Namespace is the prefix of all keys: /sorna/<namespace>.
	Namespace string `json:"namespace"`
	// Addr are the endpoints.
	Addr HostPorts `json:"addr"`
	// User and Password are used when both are set.
	User     string      `json:"user"`
	Password apis.Secret `json:"password"`
}

// Resource is the table [resource].
type Resource struct {
	// ReservedCPU, ReservedMem and ReservedDisk are kept from kernels: cores and bytes.
	ReservedCPU  int  `json:"reserved-cpu" range:"0.."`
	ReservedMem  Size `json:"reserved-mem" range:"0.."`
	ReservedDisk Size `json:"reserved-disk" range:"0.." use:"later"`
	// AllocationMode says how several agents split the node.
	AllocationMode AllocationMode `json:"allocation-mode" enum:"shared|auto-split|manual" use:"later"`
	// Allocations is this agent's share in manual mode.
	Allocations *Allocations `json:"allocations" use:"later"`
	// MemoryAlignSize is the grain of usable memory, in bytes.
	MemoryAlignSize Size `json:"memory-align-size" range:">0.."`
	// AllocationOrder is the order in which kinds of devices are allocated.
	AllocationOrder []string `json:"allocation-order"`
	// AffinityPolicy says whether devices come from one NUMA node.
	AffinityPolicy AffinityPolicy `json:"affinity-policy" use:"later"`
}

// Allocations is an agent's share of the node.
type Allocations struct {
	CPU int  `json:"cpu" required:"true"`
	Mem Size `json:"mem" required:"true"`
	// Devices is the amount of each other slot.
	Devices map[string]Decimal `json:"devices"`
}

// AllocationMode says how several agents split the node.
type AllocationMode string

// The allocation modes.
const (
	AllocateShared    AllocationMode = "shared"
	AllocateAutoSplit AllocationMode = "auto-split"
	AllocateManual    AllocationMode = "manual"
)

// AgentEntry is one of several agents in this process, complete: what it does
// not set itself comes from the common tables.
type AgentEntry struct {
	Agent     AgentNode     `json:"agent"`
	Container ContainerNode `json:"container"`
	// Resource is the agent's share in manual mode, else nil.
	Resource *Allocations `json:"resource"`
}

// Debug is the table [debug].
type Debug struct {
	Enabled                    bool `json:"enabled" use:"later"`
	Asyncio                    bool `json:"asyncio" use:"none"`
	KernelRunner               bool `json:"kernel-runner" use:"later"`
	EnhancedAiomonitorTaskInfo bool `json:"enhanced-aiomonitor-task-info" use:"none"`
	// SkipContainerDeletion keeps dead containers and their scratches.
	SkipContainerDeletion bool `json:"skip-container-deletion" use:"later"`
	LogStats              bool `json:"log-stats" use:"later"`
	LogKernelConfig       bool `json:"log-kernel-config" use:"later"`
	LogAllocMap           bool `json:"log-alloc-map" use:"later"`
	LogEvents             bool `json:"log-events" use:"later"`
	LogHeartbeats         bool `json:"log-heartbeats" use:"later"`
	LogDockerEvents       bool `json:"log-docker-events" use:"later"`
	// HeartbeatInterval is the time between two heartbeats.
	HeartbeatInterval Duration `json:"heartbeat-interval" range:">0.." use:"later"`
	Coredump          Coredump `json:"coredump" use:"later"`
}

// Coredump is the table [debug.coredump].
type Coredump struct {
	Enabled bool `json:"enabled"`
	// Path is the directory on the node that receives core files.
	Path Path `json:"path"`
	// BackupCount is the number of core files kept, SizeLimit the bytes of each.
	BackupCount int  `json:"backup-count" range:"1.."`
	SizeLimit   Size `json:"size-limit" range:"0.."`
}

// API is the table [api].
type API struct {
	// PullTimeout bounds the pull of one image.
	PullTimeout   Timeout `json:"pull-timeout" range:"0.."`
	CommitTimeout Timeout `json:"commit-timeout" range:"0.." use:"later"`
	PushTimeout   Timeout `json:"push-timeout" range:"0.." use:"later"`
}

// ContainerLogs is the table [container-logs].
type ContainerLogs struct {
	// MaxLength is the bytes kept of a kernel's output, the tail of it.
	MaxLength Size `json:"max-length" range:">0.."`
	// ChunkSize is the bytes sent at a time.
	ChunkSize Size `json:"chunk-size" range:">0.." use:"later"`
}

// KernelLifecycles is the table [kernel-lifecycles].
type KernelLifecycles struct {
	InitPollingAttempt    int      `json:"init-polling-attempt" range:"1.."`
	InitPollingTimeoutSec Duration `json:"init-polling-timeout-sec" range:">0.."`
	InitTimeoutSec        Duration `json:"init-timeout-sec" range:">0.."`
}

// Watcher is the table [watcher], of the companion service.
type Watcher struct {
	ServiceAddr        HostPort `json:"service-addr"`
	SSLEnabled         bool     `json:"ssl-enabled"`
	SSLCert            File     `json:"ssl-cert"`
	SSLKey             File     `json:"ssl-key" alias:"ssl-privkey"`
	TargetService      string   `json:"target-service"`
	SoftResetAvailable bool     `json:"soft-reset-available"`
}
