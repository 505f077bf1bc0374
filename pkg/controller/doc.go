// SPDX-License-Identifier: Apache-2.0

// Package controller is the machinery under every part of agentd: the store
// that holds all wanted and seen states, the checkpoint that keeps the durable
// ones on disk, and the controllers that call a reconciler for each name that
// changed, again and again until nothing is left to do.
//
// It knows no kind: kinds are in package apis, what is done about them is in
// package reconciler.
package controller
