// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"maps"
	"slices"

	"github.com/moby/moby/client"
)

// Info describes the engine and its host.
type Info struct {
	// Version is the engine's, API the version that agentd speaks with it,
	// MaxAPI the highest that the engine knows.
	Version string
	API     string
	MaxAPI  string

	Architecture   string
	OS             string
	KernelVersion  string
	CgroupVersion  string
	CgroupDriver   string
	DefaultRuntime string
	Runtimes       []string
	RootDir        string
	StorageDriver  string
	// LiveRestore: containers survive the engine's restart.
	LiveRestore bool

	NCPU     int
	MemBytes int64

	// SwarmState is inactive, pending, active, error or locked; SwarmManager
	// tells that networks of the swarm can be made here.
	SwarmState   string
	SwarmManager bool
	SwarmAddress string

	// UlimitCeilings are the hard limits that containers cannot exceed on this
	// host, by ulimit name, -1 for unlimited; nil when there is no ceiling or
	// none is known.
	UlimitCeilings map[string]int64

	// Warnings are the engine's own words about its host.
	Warnings []string
}

// Info asks the engine about itself.
func (e *Engine) Info(ctx context.Context) (Info, error) {
	var out Info
	err := e.call(ctx, e.timeout, "engine info", func(ctx context.Context, conn *connection) error {
		got, err := conn.Info(ctx, client.InfoOptions{})
		if err != nil {
			return err
		}
		version, err := conn.ServerVersion(ctx, client.ServerVersionOptions{})
		if err != nil {
			return err
		}
		in := got.Info
		out = Info{
			Version: in.ServerVersion, API: conn.ClientVersion(), MaxAPI: version.APIVersion,
			Architecture: architecture(in.Architecture), OS: in.OperatingSystem, KernelVersion: in.KernelVersion,
			CgroupVersion: in.CgroupVersion, CgroupDriver: in.CgroupDriver, DefaultRuntime: in.DefaultRuntime,
			RootDir: in.DockerRootDir, StorageDriver: in.Driver, LiveRestore: in.LiveRestoreEnabled,
			NCPU: in.NCPU, MemBytes: in.MemTotal,
			SwarmState: string(in.Swarm.LocalNodeState), SwarmManager: in.Swarm.ControlAvailable, SwarmAddress: in.Swarm.NodeAddr,
			Warnings: in.Warnings,
		}
		out.UlimitCeilings = e.ulimitCeilings(ctx)
		out.Runtimes = slices.Sorted(maps.Keys(in.Runtimes))
		return nil
	})
	return out, err
}
