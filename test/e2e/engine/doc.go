// SPDX-License-Identifier: Apache-2.0

// Package engine is what tests put in place of, or in front of, a Docker
// engine: [Fake] is an Engine API server in memory, [Proxy] passes everything
// on to a real engine. Both listen on a unix socket of their own and obey
// [Rule]s that delay, hold, refuse, alter, lose or cut chosen exchanges. It
// knows the API as bytes on a wire only, not through any client's types.
package engine
