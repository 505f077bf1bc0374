// SPDX-License-Identifier: Apache-2.0

package apis

// Network says that an engine network exists. Its name is the network's name.
type Network = Object[NetworkSpec, NetworkStatus]

// NetworkSpec describes the network.
type NetworkSpec struct {
	// Driver is bridge or overlay.
	Driver string `json:"driver"`
	// MTU in bytes; 0 for the engine's default.
	MTU int `json:"mtu,omitempty"`
	// External networks are only joined: never created, never removed.
	External bool `json:"external,omitempty"`
	// SessionID is the session that the network belongs to, if known.
	SessionID string `json:"sessionID,omitempty"`
}

// NetworkStatus is what is seen of it.
type NetworkStatus struct {
	Conditions Conditions `json:"conditions,omitempty"`
	ID         string     `json:"id,omitempty"`
}
