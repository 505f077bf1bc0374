// SPDX-License-Identifier: Apache-2.0

// Package reconciler makes the node look like the store says. There is one
// reconciler a kind. Each gets a name, reads what is wanted and what is there,
// takes the next step and returns; doing it twice is the same as doing it once.
//
// The order of things is written in kernel.go; what a container and a scratch
// look like is computed in plan.go without any input or output.
package reconciler

import (
	"agentd/pkg/apis"
)

// Finalizers of a kernel's parts.
const (
	finBinding   = "binding"
	finScratch   = "scratch"
	finContainer = "container"
)

// partMeta is the metadata of a kernel's part.
func partMeta(kernel string, finalizer string) apis.Meta {
	return apis.Meta{
		Name: kernel, Finalizers: []string{finalizer},
		Owner: apis.Key{Kind: apis.KindKernel, Name: kernel},
	}
}
