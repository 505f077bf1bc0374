// SPDX-License-Identifier: Apache-2.0

package apis

// Labels that the manager and the Python agent know (26.8).
const (
	// LabelKernelID is the kernel that a container is for.
	LabelKernelID = "ai.backend.kernel-id"
	// LabelSessionID is the session of a container or a network.
	LabelSessionID = "ai.backend.session-id"
	// LabelOwner and LabelAgentID hold the agent ID. The first is as old as
	// 23.03.12, the second came with 25.17; both are always written.
	LabelOwner   = "ai.backend.owner"
	LabelAgentID = "ai.backend.agent-id"
	// LabelOwnerUserID and LabelOwnerProjectID are UUIDs, or empty.
	LabelOwnerUserID    = "ai.backend.owner-user-id"
	LabelOwnerProjectID = "ai.backend.owner-project-id"
	// LabelBlockServicePorts is "1" or "0".
	LabelBlockServicePorts = "ai.backend.internal.block-service-ports"
	// LabelServicePorts is the service-port table of the image and the pre-open ports.
	LabelServicePorts = "ai.backend.service-ports"
	// LabelClusterNetwork is "1" on networks that sessions share.
	LabelClusterNetwork = "ai.backend.cluster-network"
)

// Labels of agentd alone.
const (
	// LabelIncarnation is the kernel's incarnation that a container was made for.
	LabelIncarnation = "ai.backend.agentd.incarnation"
	// LabelSpecHash is the [ContainerHash] of the spec that a container was made from.
	LabelSpecHash = "ai.backend.agentd.spec-hash"
)

// OwnedBy reports whether labels say that the agent made the thing. The older
// label decides only where the newer one is absent.
func OwnedBy(labels map[string]string, agentID string) bool {
	if agentID == "" {
		return false
	}
	if id, ok := labels[LabelAgentID]; ok {
		return id == agentID
	}
	return labels[LabelOwner] == agentID
}
