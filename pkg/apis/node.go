// SPDX-License-Identifier: Apache-2.0

package apis

// Node is this node. Its name is the agent ID.
type Node = Object[NodeSpec, NodeStatus]

// NodeSpec is what the node was configured to be.
type NodeSpec struct {
	AgentID string `json:"agentID"`
	// Version of agentd.
	Version string `json:"version"`
	// StandAlone nodes have no manager.
	StandAlone bool `json:"standAlone,omitempty"`
}

// Conditions of a node besides Ready.
const (
	// EngineReachable is true while the container engine answers.
	EngineReachable ConditionType = "EngineReachable"
	// EventsDelivered is false while events wait for the manager.
	EventsDelivered ConditionType = "EventsDelivered"
	// StateComplete is false when the checkpoint was lost: nothing is swept.
	StateComplete ConditionType = "StateComplete"
	// LimitsClamped is true when ulimits had to be lowered to what the host allows.
	LimitsClamped ConditionType = "LimitsClamped"
	// Leftovers is true when there are containers that nothing wants and that are left alone.
	Leftovers ConditionType = "Leftovers"
)

// NodeStatus is what is seen of it.
type NodeStatus struct {
	Conditions Conditions `json:"conditions,omitempty"`
	// EngineVersion and EngineAPI are the engine's.
	EngineVersion string `json:"engineVersion,omitempty"`
	EngineAPI     string `json:"engineAPI,omitempty"`
	// Capacity, Reserved and Allocated are amounts by slot name.
	Capacity  map[string]string `json:"capacity,omitempty"`
	Reserved  map[string]string `json:"reserved,omitempty"`
	Allocated map[string]string `json:"allocated,omitempty"`
	// Kernels counts kernels by phase.
	Kernels map[string]int `json:"kernels,omitempty"`
	// PendingEvents waits for the manager.
	PendingEvents int `json:"pendingEvents,omitempty"`
	// Leftovers names what nothing wants and nothing removes without an operator's word.
	Leftovers []string `json:"leftovers,omitempty"`
}
