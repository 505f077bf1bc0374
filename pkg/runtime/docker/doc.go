// SPDX-License-Identifier: Apache-2.0

// Package docker is the runtime seam on a Docker engine, API 1.40 to 1.57. It
// is the only package that knows the engine's own types and words: everything
// that leaves it is in the terms of packages apis and runtime, and every error
// carries one of their classes. The API version is negotiated on the first
// call that reaches the engine and again after the connection was lost, so an
// engine may be absent at start, be restarted, or be upgraded meanwhile.
package docker
