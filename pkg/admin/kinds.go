// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"slices"
	"strings"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/controller/intake"
)

// KindName is what people call a kind.
type KindName struct {
	Kind   apis.Kind
	Plural string
	// Short are further names.
	Short []string
}

// KindNames returns all kinds, roots before their parts.
func KindNames() []KindName {
	return []KindName{
		{apis.KindNode, "nodes", []string{"no"}},
		{apis.KindClusterSession, "clustersessions", []string{"session", "sessions", "cs"}},
		{apis.KindKernel, "kernels", []string{"k"}},
		{apis.KindNetwork, "networks", []string{"net"}},
		{apis.KindImage, "images", []string{"img"}},
		{apis.KindBinding, "bindings", []string{"b"}},
		{apis.KindScratch, "scratches", []string{"sc"}},
		{apis.KindContainer, "containers", []string{"c"}},
		{apis.KindEvent, "events", []string{"ev"}},
	}
}

// ParseKind finds a kind by any of its names.
func ParseKind(word string) (apis.Kind, error) {
	var known []string
	for _, k := range KindNames() {
		if word == string(k.Kind) || word == k.Plural || slices.Contains(k.Short, word) {
			return k.Kind, nil
		}
		known = append(known, k.Plural)
	}
	return "", fmt.Errorf("kind %q: %w; known are %s", word, apis.ErrNotFound, strings.Join(known, ", "))
}

// Typed is an object together with its kind, as it leaves the process: every
// secret in it is masked.
type Typed[S, T any] struct {
	Kind apis.Kind `json:"kind"`
	apis.Object[S, T]
}

// kindReader reads one kind, whatever its type.
type kindReader struct {
	get   func(name string) (any, bool)
	list  func() []any
	names func() []string
}

// Objects reads all kinds of a store by name of the kind.
type Objects struct {
	declare *intake.Declare
	readers map[apis.Kind]kindReader
}

// NewObjects returns a reader of every kind. The door knows what people call
// sessions and kernels.
func NewObjects(t *controller.Tables, d *intake.Declare) *Objects {
	return &Objects{declare: d, readers: map[apis.Kind]kindReader{
		apis.KindNode:           readerOf(t.Nodes),
		apis.KindClusterSession: readerOf(t.Sessions),
		apis.KindKernel:         readerOf(t.Kernels),
		apis.KindNetwork:        readerOf(t.Networks),
		apis.KindImage:          readerOf(t.Images),
		apis.KindBinding:        readerOf(t.Bindings),
		apis.KindScratch:        readerOf(t.Scratches),
		apis.KindContainer:      readerOf(t.Containers),
		apis.KindEvent:          readerOf(t.Events),
	}}
}

func readerOf[S, T any](t *controller.Table[S, T]) kindReader {
	r, kind := t.Reader(), t.Kind()
	typed := func(o *apis.Object[S, T]) any { return Typed[S, T]{Kind: kind, Object: apis.Redacted(*o)} }
	return kindReader{
		get: func(name string) (any, bool) {
			o, ok := r.Get(name)
			if !ok {
				return nil, false
			}
			return typed(o), true
		},
		list: func() []any {
			out := []any{}
			for _, o := range r.List() {
				out = append(out, typed(o))
			}
			return out
		},
		names: r.Names,
	}
}

// List returns all objects of a kind as [Typed] values, by name.
func (o *Objects) List(kind apis.Kind) []any { return o.readers[kind].list() }

// Get returns one object by its own name.
func (o *Objects) Get(kind apis.Kind, name string) (any, bool) { return o.readers[kind].get(name) }

// Find resolves the names that people use: for a session its title, for a
// kernel and its parts SESSION/HOST or the beginning of an ID.
func (o *Objects) Find(kind apis.Kind, ref string) (any, error) {
	if x, ok := o.Get(kind, ref); ok {
		return x, nil
	}
	name := ""
	switch kind { //nolint:exhaustive // the other kinds have one name only
	case apis.KindClusterSession:
		x, err := o.declare.FindSession(ref)
		if err != nil {
			return nil, err
		}
		name = x.Name
	case apis.KindKernel, apis.KindBinding, apis.KindScratch, apis.KindContainer:
		x, err := o.declare.FindKernel(ref)
		if err != nil {
			return nil, err
		}
		name = x.Name
	}
	if x, ok := o.Get(kind, name); ok {
		return x, nil
	}
	return nil, fmt.Errorf("%s %q: %w", kind, ref, apis.ErrNotFound)
}

// Names returns the names of all objects of a kind, sorted.
func (o *Objects) Names(kind apis.Kind) []string { return o.readers[kind].names() }
