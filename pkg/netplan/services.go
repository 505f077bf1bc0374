// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// loopback is where ports are published that only agentd connects to.
const loopback = "127.0.0.1"

// Names of the entries that every kernel has.
const (
	serviceSSHD    = "sshd"
	serviceTTYD    = "ttyd"
	serviceREPLIn  = "replin"
	serviceREPLOut = "replout"
)

// ServiceInput is what a kernel's services follow from.
type ServiceInput struct {
	// Role is the cluster role; only the main kernel has more than sshd and ttyd.
	Role string
	// Preopen are ports that the user asked for by number.
	Preopen []int
	// Label and Endpoints are the image's labels, see [ParseLabel].
	Label, Endpoints string
	// HostPorts are host ports that the manager took beforehand; inside and
	// outside they have the same number.
	HostPorts []int
	// Models are the ports of served models, of any role.
	Models []ModelPort
}

// ModelPort is the port of a served model.
type ModelPort struct {
	Name string
	Port int
}

// Services lists a kernel's services in the order of 23.09 to 26.8: sshd,
// ttyd, preopen ports, those of the label, host ports, models. No two share a
// container port.
func Services(in ServiceInput) ([]Service, error) {
	services := []Service{
		{Name: serviceSSHD, Protocol: TCP, ContainerPorts: []int{SSHD}},
		{Name: serviceTTYD, Protocol: HTTP, ContainerPorts: []int{TTYD}},
	}
	if IsMain(in.Role) {
		for _, port := range in.Preopen {
			services = append(services, Service{Name: strconv.Itoa(port), Protocol: Preopen, ContainerPorts: []int{port}})
		}
		labelled, err := ParseLabel(in.Label, in.Endpoints)
		if err != nil {
			return nil, err
		}
		services = append(services, labelled...)
		for i, port := range in.HostPorts {
			services = append(services, Service{
				Name: "hostport" + strconv.Itoa(i+1), Protocol: Internal,
				ContainerPorts: []int{port}, HostPorts: []int{port},
			})
		}
	}
	for _, m := range in.Models {
		services = append(services, Service{
			Name: m.Name + "-" + strconv.Itoa(m.Port), Protocol: Preopen,
			ContainerPorts: []int{m.Port}, Inference: true,
		})
	}
	return services, checkServices(services)
}

// checkServices refuses impossible, reserved and shared container ports.
func checkServices(services []Service) error {
	owner := map[int]string{}
	for _, s := range services {
		for _, port := range s.ContainerPorts {
			switch {
			case port < 1 || port > maxPort:
				return fmt.Errorf("service %s: port %d: %w", s.Name, port, ErrPortNumber)
			case port == REPLIn || port == REPLOut:
				return fmt.Errorf("service %s: port %d: 2000 and 2001 are for the kernel itself: %w", s.Name, port, ErrReservedPort)
			case owner[port] != "":
				return fmt.Errorf("service %s: port %d is also of service %s: %w", s.Name, port, owner[port], ErrPortConflict)
			}
			owner[port] = s.Name
		}
	}
	return nil
}

// PortNeed is one container port that needs a host port.
type PortNeed struct {
	// Service names the service for people.
	Service   string
	Container int
	// HostIP is the address to publish on.
	HostIP string
	// Host is a fixed host port; 0 for any of the pool.
	Host int
}

// Exposure says where a kernel's ports are published.
type Exposure struct {
	// BindHost is the address for services; empty for all addresses.
	BindHost string
	// Protected names services that are published on the loopback only
	// (see [Protected]).
	Protected []string
	// REPL adds the two ports of the reference's runner, loopback only.
	REPL bool
	// SSHPort is the host port that the manager chose for sshd; 0 for none.
	SSHPort int
}

// Protected returns the protected services of a scaling group type: the web
// terminal of storage groups.
func Protected(scalingGroupType string) []string {
	if scalingGroupType == "storage" {
		return []string{serviceTTYD}
	}
	return nil
}

// PortNeeds lists one need for each container port: REPL first, then the
// services in order.
func PortNeeds(services []Service, e Exposure) []PortNeed {
	var needs []PortNeed
	if e.REPL {
		needs = append(needs,
			PortNeed{Service: serviceREPLIn, Container: REPLIn, HostIP: loopback},
			PortNeed{Service: serviceREPLOut, Container: REPLOut, HostIP: loopback})
	}
	for _, s := range services {
		address := e.BindHost
		if slices.Contains(e.Protected, s.Name) {
			address = loopback
		}
		for i, port := range s.ContainerPorts {
			need := PortNeed{Service: s.Name, Container: port, HostIP: address}
			switch {
			case i < len(s.HostPorts):
				need.Host = s.HostPorts[i]
			case s.Name == serviceSSHD && s.Protocol == TCP:
				need.Host = e.SSHPort
			}
			needs = append(needs, need)
		}
	}
	return needs
}

// WithHostPorts returns the services with the host port of every container
// port. It is an error if one is missing.
func WithHostPorts(services []Service, hostPorts map[int]int) ([]Service, error) {
	leased := slices.Clone(services)
	for i, s := range leased {
		ports := make([]int, len(s.ContainerPorts))
		for j, port := range s.ContainerPorts {
			host, ok := hostPorts[port]
			if !ok {
				return nil, fmt.Errorf("service %s: container port %d %w", s.Name, port, ErrNoHostPort)
			}
			ports[j] = host
		}
		leased[i].HostPorts = ports
	}
	return leased, nil
}

// InHostNetwork returns the services of a kernel in host network mode: there,
// a service listens on its host port itself.
func InHostNetwork(leased []Service) []Service {
	services := slices.Clone(leased)
	for i := range services {
		services[i].ContainerPorts = slices.Clone(services[i].HostPorts)
	}
	return services
}

// IntrinsicPortsFile tells the runner of a kernel in host network mode where
// to listen; hostPorts is by the usual container port, and ports without an
// entry keep their number.
func IntrinsicPortsFile(hostPorts map[int]int) (File, error) {
	ports := map[string]int{}
	for name, port := range map[string]int{serviceREPLIn: REPLIn, serviceREPLOut: REPLOut, serviceSSHD: SSHD, serviceTTYD: TTYD} {
		if host, ok := hostPorts[port]; ok {
			ports[name] = host
		}
	}
	content, err := json.Marshal(ports)
	if err != nil {
		return File{}, fmt.Errorf("intrinsic-ports.json: %w", err)
	}
	return File{Path: "intrinsic-ports.json", Mode: 0o644, Content: content}, nil
}
