// SPDX-License-Identifier: Apache-2.0

package config

import "strings"

// Agent is the table [agent].
type Agent struct {
	AgentNode

	// Backend is the kind of engine that runs kernels.
	Backend Backend `json:"backend" alias:"mode"`
	// RPCListenAddr receives the manager's calls; an empty host is detected.
	RPCListenAddr HostPort `json:"rpc-listen-addr" use:"later"`
	// AdvertisedRPCAddr replaces RPCListenAddr in heartbeats.
	AdvertisedRPCAddr *HostPort `json:"advertised-rpc-addr" use:"later"`
	// InternalAddr is the agent's HTTP server, and AnnounceInternalAddr its
	// address for service discovery.
	InternalAddr         HostPort `json:"internal-addr" alias:"service-addr" use:"later"`
	AnnounceInternalAddr HostPort `json:"announce-internal-addr" alias:"announce-addr" use:"later"`
	// SSLEnabled turns on TLS for the HTTP server.
	SSLEnabled bool `json:"ssl-enabled" use:"later"`
	SSLCert    File `json:"ssl-cert" use:"later"`
	SSLKey     File `json:"ssl-key" use:"later"`
	// RPCAuthManagerPublicKey and RPCAuthAgentKeypair, both set, encrypt the
	// manager's calls (CURVE).
	RPCAuthManagerPublicKey File `json:"rpc-auth-manager-public-key" use:"later"`
	RPCAuthAgentKeypair     File `json:"rpc-auth-agent-keypair" use:"later"`
	// IPCBasePath holds unix sockets.
	IPCBasePath Path `json:"ipc-base-path"`
	// VarBasePath holds state that outlives the process.
	VarBasePath Path `json:"var-base-path"`
	// MountPath is where the hosts of virtual folders are mounted; empty: the agent mounts none.
	MountPath Path `json:"mount-path" use:"later"`
	// MountPathUIDGID is "uid:gid", the owner of mount directories.
	MountPathUIDGID        string `json:"mount-path-uid-gid" use:"later"`
	CohabitingStorageProxy bool   `json:"cohabiting-storage-proxy" use:"none"`
	// PublicHost is the host that clients are told for services.
	PublicHost string `json:"public-host" use:"later"`
	// Region and InstanceType are detected when empty.
	Region       string `json:"region" use:"later"`
	InstanceType string `json:"instance-type" use:"later"`
	// PIDFile is written at start when it is not /dev/null.
	PIDFile   Path   `json:"pid-file"`
	EventLoop string `json:"event-loop" enum:"asyncio|uvloop" use:"none"`
	// SkipManagerDetection starts without waiting for a manager in etcd.
	SkipManagerDetection bool `json:"skip-manager-detection" use:"later"`
	AiomonitorTermuiPort int  `json:"aiomonitor-termui-port" alias:"aiomonitor-port" range:"1..65535" use:"none"`
	AiomonitorWebuiPort  int  `json:"aiomonitor-webui-port" range:"1..65535" use:"none"`
	// MetadataServerBindHost and MetadataServerPort serve metadata to kernels.
	MetadataServerBindHost string `json:"metadata-server-bind-host" use:"later"`
	MetadataServerPort     int    `json:"metadata-server-port" range:"1..65535" use:"later"`
	// AllowComputePlugins, when not nil, are the only device plugins loaded;
	// those blocked are not loaded in any case.
	AllowComputePlugins []string `json:"allow-compute-plugins" use:"later"`
	BlockComputePlugins []string `json:"block-compute-plugins" use:"later"`
	AllowNetworkPlugins []string `json:"allow-network-plugins" use:"later"`
	BlockNetworkPlugins []string `json:"block-network-plugins" use:"later"`
	// ImageCommitPath receives archives of committed kernels.
	ImageCommitPath Path `json:"image-commit-path" use:"later"`
	// AbuseReportPath is watched for reports on abusing kernels.
	AbuseReportPath                     Path `json:"abuse-report-path" use:"later"`
	UseExperimentalRedisEventDispatcher bool `json:"use-experimental-redis-event-dispatcher" use:"none"`
	// DockerMode is "native" or "linuxkit"; empty: detected.
	DockerMode string `json:"docker-mode" use:"none"`
}

// AgentNode are the keys of [agent] that an entry of [[agents]] may override.
type AgentNode struct {
	// ID is this node's name to the manager; empty: see [AgentID].
	ID string `json:"id"`
	// AgentSockPort is where helpers in kernels reach the agent.
	AgentSockPort int `json:"agent-sock-port" range:"1024..65535" use:"later"`
	// InitialResourceGroupName is the resource group of a node that the
	// manager does not know yet; empty: the manager's default.
	InitialResourceGroupName string `json:"initial-resource-group-name" was:"scaling-group" use:"later"`
	ScalingGroupType         string `json:"scaling-group-type" enum:"compute|storage"`
	// ForceTerminateAbusingContainers is told to the manager in heartbeats.
	ForceTerminateAbusingContainers bool `json:"force-terminate-abusing-containers" use:"later"`
	// KernelCreationConcurrency bounds the containers created at a time.
	KernelCreationConcurrency int `json:"kernel-creation-concurrency" range:"1..32"`
	// SyncContainerLifecycles is the comparison of the engine's containers with the wanted ones.
	SyncContainerLifecycles SyncContainerLifecycles `json:"sync-container-lifecycles"`
	UtilizationMetric       UtilizationMetric       `json:"utilization-metric" use:"later"`
}

// SyncContainerLifecycles is the table [agent.sync-container-lifecycles].
type SyncContainerLifecycles struct {
	// Enabled is not asked: agentd compares in any case.
	Enabled bool `json:"enabled" use:"later"`
	// Interval is the time between two comparisons.
	Interval Duration `json:"interval" range:"0.."`
}

// UtilizationMetric is the table [agent.utilization-metric].
type UtilizationMetric struct {
	Node      Metric `json:"node"`
	Container Metric `json:"container"`
	Process   Metric `json:"process"`
}

// Metric is one kind of utilization measurement.
type Metric struct {
	Enable   bool     `json:"enable"`
	Interval Duration `json:"interval" range:">0.."`
}

// Backend is the kind of engine that runs kernels.
type Backend string

// The backends.
const (
	BackendDocker     Backend = "docker"
	BackendKubernetes Backend = "kubernetes"
	BackendDummy      Backend = "dummy"
)

func (b *Backend) expects() string { return `"docker", "kubernetes" or "dummy"` }

func (b *Backend) decode(n *node, _ *Machine) error {
	s, ok := n.value.(string)
	if !ok {
		return errMismatch
	}
	switch v := Backend(s); v {
	case BackendDocker, BackendKubernetes, BackendDummy:
		*b = v
		return nil
	case "k8s": // the name in the oldest files
		*b = BackendKubernetes
		return nil
	}
	return errMismatch
}

// Container is the table [container].
type Container struct {
	ContainerNode

	// BindHost is the IP address that container ports are published on; empty:
	// 127.0.0.1, as long as there is no manager to name a subnet.
	BindHost string `json:"bind-host" was:"kernel-host"`
	// AdvertisedHost replaces BindHost in what clients are told.
	AdvertisedHost string         `json:"advertised-host"`
	KrunnerVolumes map[string]any `json:"krunner-volumes" use:"none"`
}

// ContainerNode are the keys of [container] that an entry of [[agents]] may override.
type ContainerNode struct {
	// KernelUID and KernelGID own the processes and files of kernels.
	KernelUID UserID  `json:"kernel-uid"`
	KernelGID GroupID `json:"kernel-gid"`
	// PortRange are the host ports for kernels.
	PortRange PortRange `json:"port-range"`
	// PortReuseCooldownSec is the rest of a port between two kernels.
	PortReuseCooldownSec Duration    `json:"port-reuse-cooldown-sec" range:"0.."`
	StatsType            StatsType   `json:"stats-type" use:"later"`
	SandboxType          SandboxType `json:"sandbox-type" enum:"docker|jail"`
	JailArgs             []string    `json:"jail-args" use:"later"`
	// ScratchType is how a kernel's own storage is made, ScratchRoot where.
	ScratchType ScratchType `json:"scratch-type" enum:"hostdir|hostfile|memory|k8s-nfs"`
	ScratchRoot Path        `json:"scratch-root"`
	// ScratchSize is the bytes of a hostfile or memory scratch.
	ScratchSize       Size   `json:"scratch-size" range:"0.." use:"later"`
	ScratchNFSAddress string `json:"scratch-nfs-address" use:"none"`
	ScratchNFSOptions string `json:"scratch-nfs-options" use:"none"`
	// AlternativeBridge replaces the engine's network "bridge".
	AlternativeBridge string `json:"alternative-bridge"`
	SwarmEnabled      bool   `json:"swarm-enabled" use:"later"`
}

// SandboxType is what confines a kernel beyond its container.
type SandboxType string

// The sandbox types.
const (
	SandboxDocker SandboxType = "docker"
	SandboxJail   SandboxType = "jail"
)

// ScratchType is how a kernel's own storage is made.
type ScratchType string

// The scratch types.
const (
	ScratchHostDir  ScratchType = "hostdir"
	ScratchHostFile ScratchType = "hostfile"
	ScratchMemory   ScratchType = "memory"
	ScratchK8sNFS   ScratchType = "k8s-nfs"
)

// StatsType is where statistics of containers are read.
type StatsType string

// The statistics types.
const (
	StatsDocker StatsType = "docker"
	StatsCgroup StatsType = "cgroup"
)

func (s *StatsType) expects() string { return `"docker" or "cgroup"` }

func (s *StatsType) decode(n *node, _ *Machine) error {
	switch n.value {
	case string(StatsDocker), "": // no type at all meant the engine's figures
		*s = StatsDocker
	case string(StatsCgroup):
		*s = StatsCgroup
	default:
		return errMismatch
	}
	return nil
}

// AffinityPolicy says how devices are chosen over NUMA nodes.
type AffinityPolicy string

// The affinity policies.
const (
	Interleaved      AffinityPolicy = "INTERLEAVED"
	PreferSingleNode AffinityPolicy = "PREFER_SINGLE_NODE"
)

func (a *AffinityPolicy) expects() string { return `"INTERLEAVED" or "PREFER_SINGLE_NODE"` }

func (a *AffinityPolicy) decode(n *node, _ *Machine) error {
	s, ok := n.value.(string)
	if !ok {
		return errMismatch
	}
	switch v := AffinityPolicy(strings.ToUpper(s)); v {
	case Interleaved, PreferSingleNode:
		*a = v
		return nil
	}
	return &mismatchError{prefix: "Invalid affinity policy: " + clip(s) + ": "}
}
