// SPDX-License-Identifier: Apache-2.0

// Package netplan computes how the kernels of a session reach each other and
// how they are reached: host names, environment, SSH files, what to tell the
// engine about networks, service ports, and which host port each gets.
//
// Everything is data in and data out; nothing here touches the node. The one
// exception to "equal input, equal output" is making keys.
package netplan
