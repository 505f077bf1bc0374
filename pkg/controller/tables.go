// SPDX-License-Identifier: Apache-2.0

package controller

import "agentd/pkg/apis"

// Tables hold every kind. Only the program's main part has all of it; each
// reconciler gets the handles that it may use.
type Tables struct {
	Sessions   *Table[apis.ClusterSessionSpec, apis.ClusterSessionStatus]
	Kernels    *Table[apis.KernelSpec, apis.KernelStatus]
	Networks   *Table[apis.NetworkSpec, apis.NetworkStatus]
	Images     *Table[apis.ImageSpec, apis.ImageStatus]
	Bindings   *Table[apis.BindingSpec, apis.BindingStatus]
	Scratches  *Table[apis.ScratchSpec, apis.ScratchStatus]
	Containers *Table[apis.ContainerSpec, apis.ContainerStatus]
	Events     *Table[apis.EventSpec, apis.EventStatus]
	Nodes      *Table[apis.NodeSpec, apis.NodeStatus]
}

// NewTables registers every kind with the store. Durable kinds are those that
// cannot be found out again by looking at the node.
func NewTables(s *Store) *Tables {
	return &Tables{
		Sessions:   NewTable[apis.ClusterSessionSpec, apis.ClusterSessionStatus](s, apis.KindClusterSession, true),
		Kernels:    NewTable[apis.KernelSpec, apis.KernelStatus](s, apis.KindKernel, true),
		Networks:   NewTable[apis.NetworkSpec, apis.NetworkStatus](s, apis.KindNetwork, true),
		Images:     NewTable[apis.ImageSpec, apis.ImageStatus](s, apis.KindImage, false),
		Bindings:   NewTable[apis.BindingSpec, apis.BindingStatus](s, apis.KindBinding, true),
		Scratches:  NewTable[apis.ScratchSpec, apis.ScratchStatus](s, apis.KindScratch, false),
		Containers: NewTable[apis.ContainerSpec, apis.ContainerStatus](s, apis.KindContainer, true),
		Events:     NewTable[apis.EventSpec, apis.EventStatus](s, apis.KindEvent, true),
		Nodes:      NewTable[apis.NodeSpec, apis.NodeStatus](s, apis.KindNode, true),
	}
}

// Finalizers of the kinds that are created from outside: whoever has something
// in the world to undo holds exactly one.
const (
	FinalizerKernel  = "kernel"
	FinalizerSession = "session"
	FinalizerNetwork = "network"
)

// SessionMeta is the metadata that a new ClusterSession is stored with.
func SessionMeta(id string) apis.Meta {
	return apis.Meta{Name: id, Finalizers: []string{FinalizerSession}}
}

// KernelMeta is the metadata that a new Kernel is stored with.
func KernelMeta(id, sessionID string) apis.Meta {
	return apis.Meta{
		Name: id, Finalizers: []string{FinalizerKernel},
		Owner: apis.Key{Kind: apis.KindClusterSession, Name: sessionID},
	}
}

// NetworkMeta is the metadata that a new Network is stored with; owner is zero
// for one that was asked for by itself.
func NetworkMeta(name string, owner apis.Key) apis.Meta {
	return apis.Meta{Name: name, Owner: owner, Finalizers: []string{FinalizerNetwork}}
}
