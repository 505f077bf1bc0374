// SPDX-License-Identifier: Apache-2.0

// Package e2e runs the real agentd binary against a real Docker Engine and
// looks at what an operator would see: the command line, the engine, the disk.
package e2e
