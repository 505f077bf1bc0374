// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Reasons why ports cannot be planned; errors of this package wrap them.
var (
	// ErrLabel says that an image's service-ports label cannot be read.
	ErrLabel = errors.New("invalid service-ports label; write name:protocol:port or name:protocol:[port,port], separated by commas")
	// ErrPortNumber says that a port cannot be used by a service.
	ErrPortNumber = errors.New("port number out of range")
	// ErrReservedPort says that a port is for what runs in every kernel.
	ErrReservedPort = errors.New("port is reserved")
	// ErrPortConflict says that two services want one port.
	ErrPortConflict = errors.New("port is used by another service")
	// ErrNoHostPort says that a container port was not given a host port.
	ErrNoHostPort = errors.New("no host port was leased for it")
)

// Protocol is what a service speaks (26.8 ServicePortProtocols).
type Protocol string

// The protocols.
const (
	TCP      Protocol = "tcp"
	HTTP     Protocol = "http"
	Preopen  Protocol = "preopen"
	Internal Protocol = "internal"
	VNC      Protocol = "vnc"
	RDP      Protocol = "rdp"

	// pty services of old images are skipped.
	pty Protocol = "pty"
)

// Container ports of what runs in every kernel: the two of the reference's
// runner, the SSH server and the web terminal.
const (
	REPLIn  = 2000
	REPLOut = 2001
	SSHD    = 2200
	TTYD    = 7681
)

const maxPort = 65535

// Service is one named service of a kernel with its ports; HostPorts, once
// leased, has one for each container port.
type Service struct {
	Name           string   `json:"name"`
	Protocol       Protocol `json:"protocol"`
	ContainerPorts []int    `json:"container_ports"`
	HostPorts      []int    `json:"host_ports"`
	Inference      bool     `json:"is_inference"`
}

// labelItem is one item of the label; names are words of any script.
var labelItem = regexp.MustCompile(`^([\p{L}\p{N}_-]+):([a-z]+):(?:([0-9]{1,6})|\[([0-9]{1,6}(?:,[0-9]{1,6})*)\])(?:,|$)`)

// ParseLabel reads the image label ai.backend.service-ports. endpoints is the
// label ai.backend.endpoint-ports: names, separated by commas, of services
// that are inference endpoints. One bad item rejects the whole label.
func ParseLabel(label, endpoints string) ([]Service, error) {
	inference := strings.Split(endpoints, ",")
	var services []Service
	used := map[int]bool{}
	for rest := label; rest != ""; {
		m := labelItem.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("%q at %q: %w", label, rest, ErrLabel)
		}
		rest = rest[len(m[0]):]
		s := Service{Name: m[1], Protocol: Protocol(m[2]), Inference: slices.Contains(inference, m[1])}
		if s.Protocol == pty {
			continue
		}
		if !labelProtocol(s.Protocol) {
			return nil, fmt.Errorf("service %s: protocol %q: use tcp, http, preopen, vnc or rdp: %w", s.Name, s.Protocol, ErrLabel)
		}
		for text := range strings.SplitSeq(m[3]+m[4], ",") {
			port, err := strconv.Atoi(text)
			if err != nil {
				return nil, fmt.Errorf("service %s: port %q: %w", s.Name, text, ErrLabel)
			}
			if err := checkLabelPort(port); err != nil {
				return nil, fmt.Errorf("service %s: %w", s.Name, err)
			}
			if used[port] {
				return nil, fmt.Errorf("service %s: port %d: %w", s.Name, port, ErrPortConflict)
			}
			used[port] = true
			s.ContainerPorts = append(s.ContainerPorts, port)
		}
		services = append(services, s)
	}
	return services, nil
}

func labelProtocol(p Protocol) bool {
	return p == TCP || p == HTTP || p == Preopen || p == VNC || p == RDP
}

// checkLabelPort refuses ports that need root and those that every kernel has.
func checkLabelPort(port int) error {
	switch {
	case port <= 1024 || port >= maxPort:
		return fmt.Errorf("port %d: must be from 1025 to 65534: %w", port, ErrPortNumber)
	case port >= REPLIn && port <= 2003, port == SSHD, port == TTYD:
		return fmt.Errorf("port %d: 2000 to 2003, 2200 and 7681 are for the kernel itself: %w", port, ErrReservedPort)
	default:
		return nil
	}
}
