// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ErrPortMapping says that a session's map of SSH addresses cannot be used.
var ErrPortMapping = errors.New("invalid cluster SSH port mapping")

// Endpoint is where a kernel's SSH server is reached in host network mode. In
// JSON it is a list of address and port, as in 23.09 to 26.8.
type Endpoint struct {
	Host string
	Port int
}

// MarshalJSON writes ["10.0.0.1", 30022].
func (e Endpoint) MarshalJSON() ([]byte, error) { return json.Marshal([]any{e.Host, e.Port}) }

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Endpoint) UnmarshalJSON(data []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(data, &pair); err != nil {
		return fmt.Errorf("%w: %w", ErrPortMapping, err)
	}
	if len(pair) != 2 {
		return fmt.Errorf("%d elements instead of address and port: %w", len(pair), ErrPortMapping)
	}
	if err := errors.Join(json.Unmarshal(pair[0], &e.Host), json.Unmarshal(pair[1], &e.Port)); err != nil {
		return fmt.Errorf("%w: %w", ErrPortMapping, err)
	}
	return nil
}

// PortMapping has the SSH endpoint of each kernel, by host name.
type PortMapping map[string]Endpoint

// nodeKey precedes the kernel ID in the keys that 25.15 and later use.
const nodeKey = "node-"

// ByHostname returns the mapping with host names as keys. Releases since 25.15
// use "node-" and the kernel ID, which match no host name; hostnames gives the
// names of the kernels that are known here. Kernels that are not keep their key,
// which is a usable name too. A host name given both ways counts as given.
func (m PortMapping) ByHostname(hostnames map[string]string) (PortMapping, error) {
	if len(m) == 0 {
		return nil, nil
	}
	named := make(PortMapping, len(m))
	for key, endpoint := range m {
		if !isLabel(key) {
			return nil, fmt.Errorf("key %q: not a host name: %w", key, ErrPortMapping)
		}
		if endpoint.Port < 1 || endpoint.Port > maxPort {
			return nil, fmt.Errorf("host %s: port %d: not from 1 to %d: %w", key, endpoint.Port, maxPort, ErrPortMapping)
		}
		if _, err := netip.ParseAddr(endpoint.Host); err != nil {
			return nil, fmt.Errorf("host %s: address %q: not an IP address: %w", key, endpoint.Host, ErrPortMapping)
		}
		name := key
		if kernel, found := strings.CutPrefix(key, nodeKey); found && hostnames[kernel] != "" {
			name = hostnames[kernel]
			if _, given := m[name]; given {
				continue
			}
		}
		named[name] = endpoint
	}
	return named, nil
}
