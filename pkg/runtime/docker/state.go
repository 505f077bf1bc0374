// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

// listed is a line of the engine's listing.
func listed(c container.Summary) runtime.ContainerState {
	s := labelled(c.Labels)
	s.ID, s.Image, s.State = c.ID, c.Image, stateOf(c.State)
	if len(c.Names) > 0 {
		s.EngineName = strings.TrimPrefix(c.Names[0], "/")
	}
	if s.State == apis.ContainerExited {
		s.ExitCode = exitCodeIn(c.Status)
	}
	s.CreatedAt = time.Unix(c.Created, 0).UTC()
	for _, p := range c.Ports {
		if p.PublicPort != 0 && p.Type == string(network.TCP) {
			s.Ports = append(s.Ports, apis.PortLease{Container: int(p.PrivatePort), Host: int(p.PublicPort), HostIP: address(p.IP)})
		}
	}
	s.Ports = onceEach(s.Ports)
	return s
}

// inspected is the engine's full account of one container.
func inspected(c container.InspectResponse) runtime.ContainerState {
	var labels map[string]string
	var image string
	if c.Config != nil {
		labels, image = c.Config.Labels, c.Config.Image
	}
	s := labelled(labels)
	s.ID, s.EngineName, s.Image = c.ID, strings.TrimPrefix(c.Name, "/"), image
	if c.State != nil {
		s.State = stateOf(c.State.Status)
		s.OOMKilled, s.Error = c.State.OOMKilled, c.State.Error
		if s.State == apis.ContainerExited {
			s.ExitCode = c.State.ExitCode
		}
	}
	if at, err := time.Parse(time.RFC3339Nano, c.Created); err == nil {
		s.CreatedAt = at.UTC()
	}
	// What is published shows on a running container only; before and after,
	// what shall be published has to do.
	var published network.PortMap
	if c.NetworkSettings != nil {
		published = c.NetworkSettings.Ports
	}
	if s.State != apis.ContainerRunning && c.HostConfig != nil {
		published = c.HostConfig.PortBindings
	}
	for port, bindings := range published {
		for _, b := range bindings {
			host, err := strconv.Atoi(b.HostPort)
			if err == nil && host != 0 && port.Proto() == network.TCP {
				s.Ports = append(s.Ports, apis.PortLease{Container: int(port.Num()), Host: host, HostIP: address(b.HostIP)})
			}
		}
	}
	s.Ports = onceEach(s.Ports)
	return s
}

func labelled(labels map[string]string) runtime.ContainerState {
	s := runtime.ContainerState{
		KernelID: labels[apis.LabelKernelID], SessionID: labels[apis.LabelSessionID],
		Hash: labels[apis.LabelSpecHash], Labels: labels,
	}
	// A container of the Python agent has no incarnation: it stays 0.
	s.Incarnation, _ = strconv.ParseInt(labels[apis.LabelIncarnation], 10, 64)
	return s
}

// stateOf folds the engine's states. Paused and restarting containers have
// not ended; dead ones and those being removed have.
func stateOf(s container.ContainerState) apis.ContainerState {
	switch s {
	case container.StateCreated:
		return apis.ContainerCreated
	case container.StateExited, container.StateDead, container.StateRemoving:
		return apis.ContainerExited
	case container.StateRunning, container.StatePaused, container.StateRestarting:
		return apis.ContainerRunning
	}
	// A state that a later engine brings counts as alive: nothing is done to it.
	return apis.ContainerRunning
}

var exitedStatus = regexp.MustCompile(`^Exited \((-?\d+)\)`)

// exitCodeIn reads "Exited (137) 2 minutes ago"; -1 if it says nothing.
func exitCodeIn(status string) int {
	if m := exitedStatus.FindStringSubmatch(status); m != nil {
		if code, err := strconv.Atoi(m[1]); err == nil {
			return code
		}
	}
	return -1
}

func address(ip netip.Addr) string {
	if !ip.IsValid() {
		return ""
	}
	return ip.String()
}

// onceEach sorts the ports and shows one entry for a port that the engine
// publishes over IPv4 and IPv6 alike, the IPv4 one.
func onceEach(ports []apis.PortLease) []apis.PortLease {
	slices.SortFunc(ports, func(a, b apis.PortLease) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.Host, b.Host),
			cmp.Compare(strings.Count(a.HostIP, ":"), strings.Count(b.HostIP, ":")), cmp.Compare(a.HostIP, b.HostIP))
	})
	return slices.CompactFunc(ports, func(next, kept apis.PortLease) bool {
		return next.Container == kept.Container && next.Host == kept.Host &&
			(next.HostIP == kept.HostIP || strings.Contains(next.HostIP, ":"))
	})
}
