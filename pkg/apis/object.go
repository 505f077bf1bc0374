// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"slices"
	"strings"
)

// Kind names a family of objects in the store.
type Kind string

// The kinds. Architecture: one says "these kernels form one cluster", the next
// "run this kernel", and so on; see the type of the same name.
const (
	KindClusterSession Kind = "clustersession"
	KindKernel         Kind = "kernel"
	KindNetwork        Kind = "network"
	KindImage          Kind = "image"
	KindBinding        Kind = "binding"
	KindScratch        Kind = "scratch"
	KindContainer      Kind = "container"
	KindEvent          Kind = "event"
	KindNode           Kind = "node"
)

// Key names one object in the store.
type Key struct {
	Kind Kind   `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

// String returns "kind/name".
func (k Key) String() string { return string(k.Kind) + "/" + k.Name }

// ParseKey reads what [Key.String] wrote.
func ParseKey(s string) (Key, bool) {
	kind, name, ok := strings.Cut(s, "/")
	return Key{Kind: Kind(kind), Name: name}, ok && kind != "" && name != ""
}

// Meta is the part that every object has.
type Meta struct {
	// Name is unique within the kind: a kernel ID, a session ID, a network name.
	Name string `json:"name"`
	// Owner is the object that this one is a part of; zero for roots.
	Owner Key `json:"owner,omitzero"`
	// Generation grows by one whenever Spec changes; it starts at 1.
	Generation int64 `json:"generation"`
	// Revision grows with every write to the store, over all objects.
	Revision uint64 `json:"revision"`
	// Finalizers name who still has something to undo before the object may go.
	Finalizers []string `json:"finalizers,omitempty"`
	// Holds name the objects that still use this one; it is not torn down before they let go.
	Holds []string `json:"holds,omitempty"`
	// Deleting tells that the object shall go; it never becomes false again.
	Deleting bool `json:"deleting,omitempty"`
	// DeleteReason is the reason given by the first who asked for the deletion.
	DeleteReason string `json:"deleteReason,omitempty"`
	// DeleteMessage explains DeleteReason to a person.
	DeleteMessage string `json:"deleteMessage,omitempty"`
	// Labels are free key-value pairs.
	Labels map[string]string `json:"labels,omitempty"`
}

// HasFinalizer reports whether name is among the finalizers.
func (m *Meta) HasFinalizer(name string) bool { return slices.Contains(m.Finalizers, name) }

// DropFinalizer removes name from the finalizers.
func (m *Meta) DropFinalizer(name string) {
	m.Finalizers = slices.DeleteFunc(m.Finalizers, func(s string) bool { return s == name })
	if len(m.Finalizers) == 0 {
		m.Finalizers = nil
	}
}

// Object is one pair of a wanted state (Spec) and a seen state (Status). Each
// half has exactly one writer; the store sees to it.
type Object[S, T any] struct {
	Meta   `json:"metadata"`
	Spec   S `json:"spec"`
	Status T `json:"status"`
}
