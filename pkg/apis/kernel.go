// SPDX-License-Identifier: Apache-2.0

package apis

import "time"

// Kernel is one container of a compute session: "run this until told
// otherwise, or until it ends by itself". Its name is the kernel ID.
type Kernel = Object[KernelSpec, KernelStatus]

// KernelSpec is what the manager, or a session file, asks for. It is the
// 26.8 KernelCreationConfig in agentd's words.
type KernelSpec struct {
	// SessionID is the name of the ClusterSession that the kernel belongs to.
	SessionID string `json:"sessionID"`
	// SessionType is interactive, batch, inference or system.
	SessionType string   `json:"sessionType,omitempty"`
	Image       ImageRef `json:"image"`
	// Incarnation starts at 1 and grows with every restart; a container is
	// started at most once for each.
	Incarnation int64 `json:"incarnation"`

	ClusterRole string `json:"clusterRole"`
	// ClusterIdx counts from 1 within the role.
	ClusterIdx int `json:"clusterIdx"`
	// LocalRank counts from 0 over the session.
	LocalRank int `json:"localRank"`
	// Hostname is role and index: main1, sub1.
	Hostname string `json:"hostname"`

	// Slots are the requested amounts by slot name ("cpu": "2", "mem": "1073741824"), exact decimals.
	Slots map[string]string `json:"slots"`
	// ShmBytes is the size of /dev/shm; 0 for the engine's default.
	ShmBytes int64 `json:"shmBytes,omitempty"`
	// AllowFragmentation lets fractional shares be spread over devices.
	AllowFragmentation bool `json:"allowFragmentation,omitempty"`

	Environ map[string]string `json:"environ,omitempty"`
	// Mounts are the vfolders, in the order given.
	Mounts []Mount `json:"mounts,omitempty"`
	// UID and GID of the session's user; nil means by configuration.
	UID               *int  `json:"uid,omitempty"`
	GID               *int  `json:"gid,omitempty"`
	SupplementaryGIDs []int `json:"supplementaryGIDs,omitempty"`

	// Command is run once the kernel is set up; its end is the kernel's end.
	// Without one the kernel stays until it is deleted.
	Command         []string  `json:"command,omitempty"`
	BootstrapScript string    `json:"bootstrapScript,omitempty"`
	Dotfiles        []Dotfile `json:"dotfiles,omitempty"`
	// UserKeyPair is the user's own SSH key pair; nil when there is none.
	UserKeyPair       *SSHKeyPair       `json:"userKeyPair,omitempty"`
	DockerCredentials map[string]Secret `json:"dockerCredentials,omitempty"`

	PreopenPorts       []int `json:"preopenPorts,omitempty"`
	AllocatedHostPorts []int `json:"allocatedHostPorts,omitempty"`
	BlockServicePorts  bool  `json:"blockServicePorts,omitempty"`
	// Sudo lets the user become root inside the kernel.
	Sudo bool `json:"sudo,omitempty"`

	OwnerUserID    string `json:"ownerUserID,omitempty"`
	OwnerProjectID string `json:"ownerProjectID,omitempty"`
	ScalingGroup   string `json:"scalingGroup,omitempty"`
	// SuppressEvents keeps the kernel's end from the manager, who asked for that.
	SuppressEvents bool `json:"suppressEvents,omitempty"`
}

// ImageRef names an image as the manager does.
type ImageRef struct {
	// Canonical is registry/project/name:tag.
	Canonical    string `json:"canonical"`
	Architecture string `json:"architecture,omitempty"`
	// Digest is the config digest (image ID) that the manager knows.
	Digest string `json:"digest,omitempty"`
	// Local images are used as they are and never pulled.
	Local bool `json:"local,omitempty"`
	// Pull is the policy: digest, tag or none.
	Pull     PullPolicy `json:"pull,omitempty"`
	Registry string     `json:"registry,omitempty"`
	Username string     `json:"username,omitempty"`
	Password Secret     `json:"password,omitempty"`
}

// PullPolicy says when an image is pulled (AutoPullBehavior, 26.8).
type PullPolicy string

// The pull policies: when the digest differs, when the tag is missing, never.
const (
	PullDigest PullPolicy = "digest"
	PullTag    PullPolicy = "tag"
	PullNone   PullPolicy = "none"
)

// Mount is one bind mount or volume.
type Mount struct {
	// Source is a host path, or a volume name without a slash.
	Source string `json:"source"`
	// Target is an absolute path inside the kernel.
	Target string `json:"target"`
	// ReadOnly is permission ro; rw and wd are writable.
	ReadOnly bool `json:"readOnly,omitempty"`
	// VFolder names the folder for messages; empty for intrinsic mounts.
	VFolder string `json:"vfolder,omitempty"`
	// Usage is general, model or data.
	Usage string `json:"usage,omitempty"`
}

// Dotfile is a file that the user wants in the home directory.
type Dotfile struct {
	// Path is relative to /home/work, or below /home/work.
	Path string `json:"path"`
	// Perm is the octal mode, for example "0644".
	Perm string `json:"perm"`
	Data Secret `json:"data"`
}

// SSHKeyPair is an OpenSSH public line and a PEM private key.
type SSHKeyPair struct {
	Public  string `json:"public"`
	Private Secret `json:"private"`
}

// KernelStatus is what is seen of a kernel.
type KernelStatus struct {
	Conditions Conditions `json:"conditions,omitempty"`
	Phase      Phase      `json:"phase,omitempty"`
	// Incarnation is the one that Phase speaks of.
	Incarnation int64  `json:"incarnation,omitempty"`
	ContainerID string `json:"containerID,omitempty"`
	// Host is the address under which the service ports are reached.
	Host         string        `json:"host,omitempty"`
	ServicePorts []ServicePort `json:"servicePorts,omitempty"`
	// Allocations are the devices held: device name, slot, device ID, amount.
	Allocations Allocations `json:"allocations,omitempty"`
	// CreatedAt is when agentd accepted the kernel; StartBy is when it gives up
	// on starting it (zero while an image is pulled).
	CreatedAt time.Time `json:"createdAt,omitzero"`
	StartBy   time.Time `json:"startBy,omitzero"`
	// StartedAt is when the runner answered.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// ExitCode of the main process, once known.
	ExitCode *int `json:"exitCode,omitempty"`
	// Ended is the container's end by itself: the reason to report; empty while it lives.
	Ended        string `json:"ended,omitempty"`
	EndedMessage string `json:"endedMessage,omitempty"`
}

// Allocations are amounts by device name, slot name and device ID, as in the
// create_kernels result of 26.8.
type Allocations map[string]map[string]map[string]string

// ServicePort is one named service of a kernel, as the manager lists it (26.8).
type ServicePort struct {
	Name string `json:"name"`
	// Protocol is tcp, http, preopen, internal, vnc or rdp.
	Protocol       string `json:"protocol"`
	ContainerPorts []int  `json:"containerPorts"`
	HostPorts      []int  `json:"hostPorts"`
	Inference      bool   `json:"inference,omitempty"`
}

// Reasons of kernel_terminated (26.8 KernelLifecycleEventReason values).
const (
	ReasonUserRequested     = "user-requested"
	ReasonSelfTerminated    = "self-terminated"
	ReasonAlreadyTerminated = "already-terminated"
	ReasonFailedToCreate    = "failed-to-create"
	ReasonFailedToStart     = "failed-to-start"
	ReasonBootstrapTimeout  = "bootstrap-timeout"
	ReasonAgentTermination  = "agent-termination"
	ReasonContainerNotFound = "container-not-found"
	ReasonNotFoundInManager = "not-found-in-manager"
	ReasonUnknownContainer  = "terminated-unknown-container"
)
