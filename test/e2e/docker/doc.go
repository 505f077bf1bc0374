// SPDX-License-Identifier: Apache-2.0

// Package docker tests package docker of the runtime on a real engine: what
// its answers really are, and what becomes of them when a proxy in between
// delays, loses or cuts them.
package docker
