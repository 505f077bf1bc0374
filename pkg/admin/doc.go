// SPDX-License-Identifier: Apache-2.0

// Package admin is the door for the operator of a node: HTTP on a unix socket
// that only root and the daemon's own user can open, and the client of it that
// the command line uses. It shows every object, takes session files without a
// manager, and gives access to the logs and the insides of kernels.
package admin
