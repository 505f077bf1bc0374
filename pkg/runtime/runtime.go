// SPDX-License-Identifier: Apache-2.0

// Package runtime is the seam between the reconcilers and the node: small,
// coarse, idempotent operations named by intent. Reconcilers never see the
// engine's own types. Package fake implements the seam in memory; packages
// docker, scratch and runner implement it for real.
//
// Every call takes a context with a deadline. Errors are classified with the
// classes of package apis: ErrNotFound, ErrConflict, ErrUnavailable,
// TerminalError, PortInUseError; anything else is transient.
package runtime

import (
	"context"
	"io"
	"time"

	"agentd/pkg/apis"
)

// Node is everything that a reconciler may touch.
type Node struct {
	Containers Containers
	Networks   Networks
	Images     Images
	Scratches  Scratches
	Runner     Runner
	Logs       LogKeeper
}

// ContainerState is a container as the engine shows it.
type ContainerState struct {
	ID         string `json:"id"`
	EngineName string `json:"engineName"`
	// KernelID, SessionID, Incarnation and Hash come from our labels; a
	// container made by the reference agent has the first two only.
	KernelID    string              `json:"kernelID"`
	SessionID   string              `json:"sessionID"`
	Incarnation int64               `json:"incarnation"`
	Hash        string              `json:"hash"`
	State       apis.ContainerState `json:"state"`
	// ExitCode holds for exited containers.
	ExitCode  int    `json:"exitCode"`
	OOMKilled bool   `json:"oomKilled"`
	Error     string `json:"error"`
	Image     string `json:"image"`
	// Ports are the published ports; Service is empty.
	Ports     []apis.PortLease  `json:"ports"`
	Labels    map[string]string `json:"labels"`
	CreatedAt time.Time         `json:"createdAt"`
}

// Containers are the engine's containers that carry our label and agent ID.
type Containers interface {
	// Find inspects one container by its engine name. A container of that name
	// without our label and agent ID is an ErrConflict.
	Find(ctx context.Context, engineName string) (c ContainerState, found bool, err error)
	// Create makes a container from the spec, with labels for its incarnation
	// and hash. A taken name is ErrConflict.
	Create(ctx context.Context, spec apis.ContainerSpec) (id string, err error)
	// Start starts it; running already is success. A port in use is a PortInUseError.
	Start(ctx context.Context, id string) error
	// Stop asks it to end and kills it after the grace; stopped or absent is success.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Remove removes it with its anonymous volumes, by force; absent is success.
	Remove(ctx context.Context, id string) error
	// Logs streams stdout and stderr as they were written.
	Logs(ctx context.Context, id string, opt LogOptions) (io.ReadCloser, error)
	// List lists ours in every state.
	List(ctx context.Context) ([]ContainerState, error)
}

// LogOptions choose what Logs returns.
type LogOptions struct {
	// Follow keeps the stream open until the container ends.
	Follow bool
	// Tail is the number of last lines; 0 means all.
	Tail int
}

// NetworkState is a network as the engine shows it.
type NetworkState struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Driver string `json:"driver"`
	// Endpoints counts attached containers, in any state that holds an endpoint.
	Endpoints int `json:"endpoints"`
	// SessionID comes from our label.
	SessionID string    `json:"sessionID"`
	CreatedAt time.Time `json:"createdAt"`
}

// Networks are the engine's networks.
type Networks interface {
	// Ensure makes the network if it is not there and returns its ID. An
	// external one is only looked up: ErrNotFound if absent. Several networks
	// of one name: ours is taken if exactly one carries our label and agent
	// ID, else ErrConflict.
	Ensure(ctx context.Context, name string, spec apis.NetworkSpec) (id string, err error)
	// Remove removes our networks of that name; absent is success. Still in
	// use is ErrConflict.
	Remove(ctx context.Context, name string) error
	// List lists those with our label and agent ID.
	List(ctx context.Context) ([]NetworkState, error)
}

// ImageState is an image as the engine shows it.
type ImageState struct {
	// ID is the config digest.
	ID           string            `json:"id"`
	Architecture string            `json:"architecture"`
	Labels       map[string]string `json:"labels"`
	Env          []string          `json:"env"`
}

// Images are the engine's images.
type Images interface {
	Inspect(ctx context.Context, ref string) (img ImageState, found bool, err error)
	// Pull pulls it; progress is told in short texts. Unauthorized and not
	// found are terminal.
	Pull(ctx context.Context, ref apis.ImageRef, progress func(string)) error
}

// Scratches are the kernels' directories on the host.
type Scratches interface {
	// Ensure makes directories and files as wanted and returns the host path.
	Ensure(ctx context.Context, name string, spec apis.ScratchSpec) (path string, changed bool, err error)
	// Differing lists what Ensure would make or change, by path, and changes nothing.
	Differing(ctx context.Context, name string, spec apis.ScratchSpec) ([]string, error)
	// Remove removes all of it; absent is success. Links are never followed.
	Remove(ctx context.Context, name string) error
	List(ctx context.Context) ([]string, error)
	// Read returns one file of a scratch; ErrNotFound if absent.
	Read(ctx context.Context, name, path string) ([]byte, error)
	// Path is the host directory of a scratch, whether it exists or not.
	Path(name string) string
}

// Runner talks to the program inside a kernel.
type Runner interface {
	// WaitReady returns once the kernel's runner says that it is set up, or
	// with the context's error.
	WaitReady(ctx context.Context, kernelID string) error
}

// LogKeeper keeps the logs of containers that are about to be removed.
type LogKeeper interface {
	// Save keeps the tail of r under the kernel's ID.
	Save(ctx context.Context, kernelID string, r io.Reader) error
	// Open returns the kept log; ErrNotFound if there is none.
	Open(kernelID string) (io.ReadCloser, error)
}

// Event is a hint that something about a kernel's container changed.
type Event struct {
	KernelID string
	Action   string
	At       time.Time
}

// Watcher streams hints.
type Watcher interface {
	// Watch calls fn for every event since the given time, until the stream
	// ends or the context does. It calls ready once the subscription stands.
	Watch(ctx context.Context, since time.Time, ready func(), fn func(Event)) error
}
