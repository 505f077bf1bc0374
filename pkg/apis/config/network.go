// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"
)

// HostPort is a network address. An empty host means "detect" or "all
// addresses", as the key says.
type HostPort struct {
	Host string
	Port int
}

// String returns "host:port", with brackets around IPv6 addresses.
func (h HostPort) String() string { return net.JoinHostPort(h.Host, strconv.Itoa(h.Port)) }

// MarshalJSON writes the text form.
func (h HostPort) MarshalJSON() ([]byte, error) { return json.Marshal(h.String()) }

// ParseHostPort reads "host:port". The last colon separates; brackets around
// IPv6 addresses are stripped.
func ParseHostPort(s string) (HostPort, error) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return HostPort{}, errMismatch
	}
	port, err := parsePort(s[i+1:])
	if err != nil {
		return HostPort{}, err
	}
	host, err := parseHost(s[:i])
	return HostPort{Host: host, Port: port}, err
}

func parsePort(s string) (int, error) {
	port, err := strconv.Atoi(s)
	if err != nil || port < 1 || port > 65535 {
		return 0, fmt.Errorf("the port must be a number from 1 to 65535, not %q", clip(s))
	}
	return port, nil
}

func parseHost(s string) (string, error) {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		s = s[1 : len(s)-1]
	}
	if strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`/[]@"'`, r)
	}) {
		return "", fmt.Errorf("the host must be a name or an IP address, not %q", clip(s))
	}
	return s, nil
}

func (h *HostPort) expects() string {
	return `an address such as "127.0.0.1:6001", ["127.0.0.1", 6001] or {host = "127.0.0.1", port = 6001}`
}

func (h *HostPort) decode(n *node, _ *Machine) error {
	switch v := n.value.(type) {
	case string:
		parsed, err := ParseHostPort(v)
		if err != nil {
			return err
		}
		*h = parsed
		return nil
	case []*node:
		if len(v) != 2 {
			return errMismatch
		}
		return h.set(v[0], v[1])
	case map[string]*node:
		for k := range v {
			if k != "host" && k != "port" {
				return fmt.Errorf("unknown key %q in an address: expected host and port", k)
			}
		}
		return h.set(v["host"], v["port"])
	}
	return errMismatch
}

// set takes the parts that are given; the others keep their default.
func (h *HostPort) set(host, port *node) error {
	out := *h
	if host != nil {
		s, ok := host.value.(string)
		if !ok {
			return errMismatch
		}
		parsed, err := parseHost(s)
		if err != nil {
			return err
		}
		out.Host = parsed
	}
	if port != nil {
		var text string
		switch v := port.value.(type) {
		case string:
			text = v
		case int64:
			text = strconv.FormatInt(v, 10)
		default:
			return errMismatch
		}
		parsed, err := parsePort(text)
		if err != nil {
			return err
		}
		out.Port = parsed
	}
	if out.Port == 0 {
		return errors.New("the port is missing")
	}
	*h = out
	return nil
}

// HostPorts is one address or a list of addresses; in texts commas separate.
type HostPorts []HostPort

func (h *HostPorts) expects() string {
	return `an address such as "127.0.0.1:2379", or a list of such addresses`
}

func (h *HostPorts) decode(n *node, m *Machine) error {
	parts := []*node{n}
	switch v := n.value.(type) {
	case string:
		parts = nil
		for s := range strings.SplitSeq(v, ",") {
			parts = append(parts, &node{value: strings.TrimSpace(s)})
		}
	case []*node:
		if !isPair(v) {
			parts = v
		}
	}
	if len(parts) == 0 {
		return errMismatch
	}
	out := make(HostPorts, len(parts))
	for i, p := range parts {
		if err := out[i].decode(p, m); err != nil {
			return err
		}
	}
	*h = out
	return nil
}

// isPair tells ["host", 2379] from ["host:2379", "host:2379"].
func isPair(v []*node) bool {
	if len(v) != 2 {
		return false
	}
	if _, ok := v[0].value.(string); !ok {
		return false
	}
	switch port := v[1].value.(type) {
	case int64:
		return true
	case string:
		_, err := strconv.Atoi(port)
		return err == nil
	}
	return false
}

// PortRange is a range of ports; both ends belong to it.
type PortRange struct{ Low, High int }

// String returns "low-high".
func (p PortRange) String() string { return fmt.Sprintf("%d-%d", p.Low, p.High) }

// MarshalJSON writes [low, high].
func (p PortRange) MarshalJSON() ([]byte, error) { return json.Marshal([2]int{p.Low, p.High}) }

func (p *PortRange) expects() string {
	return `a range of ports such as [30000, 31000] or "30000-31000"`
}

func (p *PortRange) decode(n *node, _ *Machine) error {
	var ends []string
	switch v := n.value.(type) {
	case string:
		ends = strings.FieldsFunc(v, func(r rune) bool { return r == '-' || r == ',' })
	case []*node:
		for _, e := range v {
			switch e := e.value.(type) {
			case int64:
				ends = append(ends, strconv.FormatInt(e, 10))
			case string:
				ends = append(ends, e)
			default:
				return errPortRange
			}
		}
	}
	if len(ends) != 2 {
		return errPortRange
	}
	var out [2]int
	for i, e := range ends {
		port, err := strconv.Atoi(strings.TrimSpace(e))
		if err != nil {
			return errPortRange
		}
		if port < 1 || port > 65535 {
			return fmt.Errorf("ports go from 1 to 65535, found %d", port)
		}
		out[i] = port
	}
	if out[0] > out[1] {
		return fmt.Errorf("the first port %d is above the last port %d; write [%d, %d]", out[0], out[1], out[1], out[0])
	}
	*p = PortRange{Low: out[0], High: out[1]}
	return nil
}

// errPortRange starts with the reference's words, which operators search for.
var errPortRange = &mismatchError{prefix: "port_range must be a tuple of two integers: "}
