// SPDX-License-Identifier: Apache-2.0

package apis

import "time"

// Binding says that a kernel holds device shares and host ports. Its name is
// the kernel ID. All bindings together are the node's ledger.
type Binding = Object[BindingSpec, BindingStatus]

// BindingSpec is what is asked for.
type BindingSpec struct {
	// Slots are amounts by slot name, exact decimals.
	Slots map[string]string `json:"slots"`
	// Ports are the container ports that need a host port, in order.
	Ports []PortRequest `json:"ports,omitempty"`
	// AvoidPorts are host ports that turned out to be in use by others.
	AvoidPorts []int `json:"avoidPorts,omitempty"`
	// AllowFragmentation lets fractional shares be spread over devices.
	AllowFragmentation bool `json:"allowFragmentation,omitempty"`
}

// PortRequest asks for one host port.
type PortRequest struct {
	// Service names the service for people and messages.
	Service   string `json:"service"`
	Container int    `json:"container"`
	// HostIP is the address to publish on.
	HostIP string `json:"hostIP"`
	// Host is a fixed host port; 0 for one of the pool.
	Host int `json:"host,omitempty"`
}

// PortLease is a host port that is held.
type PortLease struct {
	Service   string `json:"service"`
	Container int    `json:"container"`
	HostIP    string `json:"hostIP"`
	Host      int    `json:"host"`
}

// BindingStatus is what is held.
type BindingStatus struct {
	Conditions Conditions `json:"conditions,omitempty"`
	// Allocations are the devices held.
	Allocations Allocations `json:"allocations,omitempty"`
	Ports       []PortLease `json:"ports,omitempty"`
	// At is when the allocation was made.
	At time.Time `json:"at,omitzero"`
}
