// SPDX-License-Identifier: Apache-2.0

// Package scratch keeps the kernels' directories on the host: it is the
// runtime.Scratches of a real node.
//
// On disk there is one directory per kernel below the scratch root, and beside
// them, for a moment or after a crash, directories that belong to nobody:
//
//	<root>/<kernel>/              0711, agentd's own; never mounted into a container
//	<root>/<kernel>/.agentd       whose it is (the agent ID); 0600
//	<root>/<kernel>/config, work  and whatever else the spec lists
//	<root>/.removing-<kernel>-<n> half made or half removed
//
// The kernel owns parts of its directory and may swap anything there for links,
// pipes, devices or endless trees at any moment. Nothing here therefore uses a
// path twice: every name is resolved beneath an open directory with openat2,
// which follows no links and crosses no mounts, and what is found is judged and
// changed through its file descriptor. A file that differs is never changed in
// place but replaced by rename, so neither a hard link nor a reader sees more
// than a complete file.
package scratch
