// SPDX-License-Identifier: Apache-2.0

// Package slots is the arithmetic of a node's devices: exact amounts, which
// device a kernel gets, what the node reports as free, and the resource.txt
// that tells a kernel what it has.
//
// Nothing here reads or writes the node. Detection reads through an [io/fs.FS]
// that stands for the root directory, so that a test can hand in any machine.
// The ledger keeps no state either: it is given the devices and everything
// that kernels hold, and answers with an allocation or an error.
package slots
