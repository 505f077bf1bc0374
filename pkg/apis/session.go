// SPDX-License-Identifier: Apache-2.0

package apis

// ClusterSession says that kernels form one cluster. Its name is the session ID.
type ClusterSession = Object[ClusterSessionSpec, ClusterSessionStatus]

// ClusterMode tells whether the kernels of a session may be on several nodes.
type ClusterMode string

// The cluster modes (26.8).
const (
	SingleNode ClusterMode = "single-node"
	MultiNode  ClusterMode = "multi-node"
)

// ClusterSessionSpec is the 26.8 ClusterInfo in agentd's words.
type ClusterSessionSpec struct {
	// Title is the session's name for people; unique among live sessions of a session file.
	Title string      `json:"title,omitempty"`
	Mode  ClusterMode `json:"mode"`
	// Size is the number of kernels over all nodes.
	Size int `json:"size"`
	// Replicas counts kernels by role.
	Replicas map[string]int `json:"replicas"`
	// Kernels are the IDs of the kernels on this node, main first.
	Kernels []string          `json:"kernels"`
	Network NetworkAttachment `json:"network,omitzero"`
	// KeyPair lets the kernels reach each other by SSH; nil for none.
	KeyPair *SSHKeyPair `json:"keyPair,omitempty"`
	// PortMapping gives host and port of each kernel's sshd in host network mode.
	PortMapping map[string]HostPort `json:"portMapping,omitempty"`
}

// HostPort is an address.
type HostPort struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// NetworkMode is how kernels of a session reach each other.
type NetworkMode string

// The network modes of cluster_info.network_config (26.8); the empty one is
// the engine's default bridge.
const (
	NetworkDefault NetworkMode = ""
	NetworkBridge  NetworkMode = "bridge"
	NetworkOverlay NetworkMode = "overlay"
	NetworkHost    NetworkMode = "host"
)

// NetworkAttachment is the network that the kernels of a session join.
type NetworkAttachment struct {
	Mode NetworkMode `json:"mode,omitempty"`
	Name string      `json:"name,omitempty"`
	// ID is the engine's ID where the manager knows it.
	ID string `json:"id,omitempty"`
	// Managed networks are made and removed by the session itself; others
	// come and go by requests of their own.
	Managed bool `json:"managed,omitempty"`
}

// ClusterSessionStatus is the plan computed from the spec.
type ClusterSessionStatus struct {
	Conditions Conditions `json:"conditions,omitempty"`
	// Hosts are the names of all kernels, main first.
	Hosts []string `json:"hosts,omitempty"`
}
