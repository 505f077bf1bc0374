// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"

	"agentd/pkg/apis"
)

// logFiles is how many files of the "local" log driver one container has.
const logFiles = 5

// createRequest is the engine's form of a spec. It fails only on values that
// the engine's form cannot hold; those are terminal.
func createRequest(spec apis.ContainerSpec, agentID string) (container.CreateRequest, error) {
	ports, bindings, err := portMaps(spec)
	if err != nil {
		return container.CreateRequest{}, err
	}
	devices, err := deviceMappings(spec.Devices)
	if err != nil {
		return container.CreateRequest{}, err
	}
	enabled := true
	return container.CreateRequest{
		Config: &container.Config{
			Hostname: spec.Hostname, User: spec.User, WorkingDir: spec.WorkingDir,
			Image: spec.Image, Entrypoint: spec.Entrypoint, Cmd: spec.Cmd, Env: spec.Env,
			Labels: ownLabels(spec, agentID), ExposedPorts: ports,
			Tty: true, OpenStdin: true, StopSignal: spec.StopSignal,
		},
		HostConfig: &container.HostConfig{
			Init:         &enabled,
			LogConfig:    logConfig(spec.LogMaxBytes),
			Mounts:       mounts(spec.Mounts),
			PortBindings: bindings,
			NetworkMode:  container.NetworkMode(spec.NetworkMode),
			ExtraHosts:   spec.ExtraHosts,
			CapAdd:       spec.CapAdd,
			SecurityOpt:  spec.SecurityOpt,
			ShmSize:      spec.ShmBytes,
			Resources: container.Resources{
				CpusetCpus: spec.CpusetCpus,
				// Equal limits mean: no swap.
				Memory: spec.MemoryBytes, MemorySwap: spec.MemoryBytes,
				Ulimits: ulimits(spec.Ulimits), Devices: devices,
			},
		},
		NetworkingConfig: endpoint(spec),
	}, nil
}

// ownLabels are the spec's labels and those by which a container is found again.
func ownLabels(spec apis.ContainerSpec, agentID string) map[string]string {
	labels := maps.Clone(spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[apis.LabelAgentID] = agentID
	labels[apis.LabelOwner] = agentID
	labels[apis.LabelIncarnation] = strconv.FormatInt(spec.Incarnation, 10)
	labels[apis.LabelSpecHash] = apis.ContainerHash(spec)
	return labels
}

func portMaps(spec apis.ContainerSpec) (network.PortSet, network.PortMap, error) {
	exposed, bindings := network.PortSet{}, network.PortMap{}
	expose := func(number int) (network.Port, error) {
		if number < 1 || number > 65535 {
			return network.Port{}, apis.Terminalf(apis.ReasonInvalid, "container port %d: must be 1 to 65535", number)
		}
		p, _ := network.PortFrom(uint16(number), network.TCP)
		exposed[p] = struct{}{}
		return p, nil
	}
	for _, number := range spec.ExposedPorts {
		if _, err := expose(number); err != nil {
			return nil, nil, err
		}
	}
	for _, lease := range spec.Ports {
		p, err := expose(lease.Container)
		if err != nil {
			return nil, nil, err
		}
		if lease.Host < 1 || lease.Host > 65535 {
			return nil, nil, apis.Terminalf(apis.ReasonInvalid, "host port %d of %s: must be 1 to 65535", lease.Host, lease.Service)
		}
		binding := network.PortBinding{HostPort: strconv.Itoa(lease.Host)}
		if lease.HostIP != "" {
			if binding.HostIP, err = netip.ParseAddr(lease.HostIP); err != nil {
				return nil, nil, apis.Terminalf(apis.ReasonInvalid, "address to publish %s on: %w", lease.Service, err)
			}
		}
		bindings[p] = append(bindings[p], binding)
	}
	return exposed, bindings, nil
}

// mounts tells directories from volumes by the slash that a volume's name never has.
func mounts(in []apis.Mount) []mount.Mount {
	out := make([]mount.Mount, 0, len(in))
	for _, m := range in {
		kind := mount.TypeVolume
		if strings.Contains(m.Source, "/") {
			kind = mount.TypeBind
		}
		out = append(out, mount.Mount{Type: kind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return out
}

// endpoint attaches the container to its user-defined network. The engine
// refuses aliases on its own networks.
func endpoint(spec apis.ContainerSpec) *network.NetworkingConfig {
	if !container.NetworkMode(spec.NetworkMode).IsUserDefined() || spec.NetworkMode == "" {
		return nil
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		spec.NetworkMode: {Aliases: spec.Aliases, DriverOpts: spec.EndpointOpt},
	}}
}

func logConfig(maxBytes int64) container.LogConfig {
	log := container.LogConfig{Type: "local", Config: map[string]string{
		"max-file": strconv.Itoa(logFiles), "compress": "false",
	}}
	if maxBytes > 0 {
		log.Config["max-size"] = strconv.FormatInt(max(maxBytes/logFiles, 1), 10)
	}
	return log
}

func ulimits(in []apis.Ulimit) []*container.Ulimit {
	out := make([]*container.Ulimit, 0, len(in))
	for _, u := range in {
		out = append(out, &container.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	return out
}

// deviceMappings reads HOST[:CONTAINER[:PERMISSIONS]].
func deviceMappings(in []string) ([]container.DeviceMapping, error) {
	out := make([]container.DeviceMapping, 0, len(in))
	for _, text := range in {
		parts := strings.Split(text, ":")
		d := container.DeviceMapping{PathOnHost: parts[0], PathInContainer: parts[0], CgroupPermissions: "rwm"}
		switch len(parts) {
		case 3:
			d.CgroupPermissions = parts[2]
			fallthrough
		case 2:
			d.PathInContainer = parts[1]
		case 1:
		default:
			return nil, apis.Terminal(apis.ReasonInvalid, fmt.Errorf("device %q: must be HOST[:CONTAINER[:PERMISSIONS]]", text))
		}
		out = append(out, d)
	}
	return out, nil
}
