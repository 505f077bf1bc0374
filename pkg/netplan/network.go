// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
)

// ErrNetwork says that a kernel's network cannot be planned.
var ErrNetwork = errors.New("invalid cluster network")

// Mode is how the kernels of a session reach each other (network_config.mode of 26.8).
type Mode string

// The network modes.
const (
	// ModeNone leaves a kernel alone on the default or the alternative bridge.
	ModeNone    Mode = ""
	ModeBridge  Mode = "bridge"
	ModeOverlay Mode = "overlay"
	ModeHost    Mode = "host"
)

// The label that marks the networks of sessions.
const (
	NetworkLabel      = "ai.backend.cluster-network"
	NetworkLabelValue = "1"
)

// DefaultMTU is the overlay's default packet size in bytes.
const DefaultMTU = 1500

const (
	optionMTU    = "com.docker.network.driver.mtu"
	optionIfname = "com.docker.network.endpoint.ifname"
	// overlayIfname is the name that programs in a kernel know the overlay by.
	overlayIfname = "baimulti0"
	envOMPI       = "OMPI_MCA_btl_tcp_if_exclude"
)

// SingleNodeName is the name of the bridge network of a session on one node.
func SingleNodeName(sessionID string) string { return "bai-singlenode-" + sessionID }

// MultiNodeName is the name of the overlay network of a session on several nodes.
func MultiNodeName(sessionID string) string { return "bai-multinode-" + sessionID }

// Network is what to tell the engine when a network is made.
type Network struct {
	Name       string
	Driver     string
	Attachable bool
	Labels     map[string]string
	Options    map[string]string
}

// NewNetwork returns a session's network for a driver, bridge or overlay. An
// MTU of 0 leaves a bridge to the engine and gives an overlay [DefaultMTU].
func NewNetwork(name string, driver Mode, mtu int) (Network, error) {
	n := Network{
		Name: name, Driver: string(driver),
		Labels:  map[string]string{NetworkLabel: NetworkLabelValue},
		Options: map[string]string{},
	}
	switch {
	case driver != ModeBridge && driver != ModeOverlay:
		return Network{}, fmt.Errorf("network %s: driver %q: use bridge or overlay: %w", name, driver, ErrNetwork)
	case name == "":
		return Network{}, fmt.Errorf("a network without a name: %w", ErrNetwork)
	case mtu != 0 && (mtu < 68 || mtu > 65535):
		return Network{}, fmt.Errorf("network %s: MTU %d: not from 68 to 65535: %w", name, mtu, ErrNetwork)
	}
	if driver == ModeOverlay {
		n.Attachable = true // containers that are no swarm tasks join it
		if mtu == 0 {
			mtu = DefaultMTU
		}
	}
	if mtu != 0 {
		n.Options[optionMTU] = strconv.Itoa(mtu)
	}
	return n, nil
}

// Attachment says how a kernel is to be connected.
type Attachment struct {
	Mode Mode
	// Network is the name of the session's network, for bridge and overlay.
	Network string
	// Hostname is the kernel's own name.
	Hostname string
	// AlternativeBridge replaces the default bridge of a kernel that is alone; it
	// never replaces a session's network.
	AlternativeBridge string
	// Mapping has the addresses of the session's hosts in host mode.
	Mapping PortMapping
	// GatewaySubnet is that of docker_gwbridge if the engine has it; MPI must not
	// use it between kernels of an overlay.
	GatewaySubnet string
}

// Connection is what to tell the engine when a container is made.
type Connection struct {
	// NetworkMode is a network's name, "host", or empty for the default bridge.
	NetworkMode string
	// Aliases are the names under which others find the kernel in NetworkMode.
	Aliases []string
	// EndpointOptions are driver options of the kernel's end.
	EndpointOptions map[string]string
	// ExtraHosts are "name:address" lines for /etc/hosts.
	ExtraHosts []string
	// Env are variables for the container.
	Env map[string]string
	// Published tells whether ports of the container can be published; in host
	// mode they are the node's already.
	Published bool
}

// Connect plans a kernel's connection. A kernel joins one network only.
func (a Attachment) Connect() (Connection, error) {
	switch a.Mode {
	case ModeNone:
		return Connection{NetworkMode: a.AlternativeBridge, Published: true}, nil
	case ModeBridge, ModeOverlay:
		return a.connectNamed()
	case ModeHost:
		return a.connectHost(), nil
	default:
		return Connection{}, fmt.Errorf("kernel %s: network mode %q: use bridge, overlay or host: %w", a.Hostname, a.Mode, ErrNetwork)
	}
}

func (a Attachment) connectNamed() (Connection, error) {
	if a.Network == "" || a.Network == string(ModeHost) {
		return Connection{}, fmt.Errorf("kernel %s: network mode %s without the network's name: %w", a.Hostname, a.Mode, ErrNetwork)
	}
	if !isLabel(a.Hostname) {
		return Connection{}, fmt.Errorf("kernel %q: not a host name: %w", a.Hostname, ErrNetwork)
	}
	c := Connection{NetworkMode: a.Network, Aliases: []string{a.Hostname}, Published: true}
	if a.Mode == ModeOverlay {
		c.EndpointOptions = map[string]string{optionIfname: overlayIfname}
		if a.GatewaySubnet != "" {
			if _, err := netip.ParsePrefix(a.GatewaySubnet); err != nil {
				return Connection{}, fmt.Errorf("kernel %s: subnet %q of docker_gwbridge: %w: %w", a.Hostname, a.GatewaySubnet, err, ErrNetwork)
			}
			c.Env = map[string]string{envOMPI: "127.0.0.1/32," + a.GatewaySubnet}
		}
	}
	return c, nil
}

func (a Attachment) connectHost() Connection {
	c := Connection{NetworkMode: string(ModeHost)}
	for _, name := range slices.Sorted(maps.Keys(a.Mapping)) {
		c.ExtraHosts = append(c.ExtraHosts, name+":"+a.Mapping[name].Host)
	}
	return c
}
