// SPDX-License-Identifier: Apache-2.0

package apis

// Scratch says that a kernel's directories and files exist. Its name is the kernel ID.
type Scratch = Object[ScratchSpec, ScratchStatus]

// ScratchSpec lists what is there. Every path is relative to the kernel's
// scratch directory and is resolved beneath it.
type ScratchSpec struct {
	// Kind is hostdir, hostfile or memory.
	Kind string `json:"kind"`
	// SizeBytes limits the kinds that have a size; 0 for none.
	SizeBytes int64         `json:"sizeBytes,omitempty"`
	Dirs      []ScratchDir  `json:"dirs,omitempty"`
	Files     []ScratchFile `json:"files,omitempty"`
}

// ScratchDir is one directory.
type ScratchDir struct {
	Path string `json:"path"`
	// Mode is the permission bits, for example 0o755.
	Mode uint32 `json:"mode"`
	// UID and GID own it; -1 leaves agentd's own.
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// ScratchFile is one file.
type ScratchFile struct {
	Path    string `json:"path"`
	Mode    uint32 `json:"mode"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	Content Secret `json:"content"`
	// Once files are written only when absent: the kernel may change them.
	Once bool `json:"once,omitempty"`
}

// ScratchStatus is what is seen of it.
type ScratchStatus struct {
	Conditions Conditions `json:"conditions,omitempty"`
	// Path is the host directory.
	Path string `json:"path,omitempty"`
}
