// SPDX-License-Identifier: Apache-2.0

// Package apis defines what agentd talks about: the kinds of objects in the
// store, their wanted and seen states, conditions, phases and error classes.
// It does no input or output.
package apis
