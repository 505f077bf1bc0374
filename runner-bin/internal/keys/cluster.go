// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"agentd/runner-bin/internal/layout"
)

// ReadCluster collects the cluster from the session's variables and from port-mapping.json. It returns false when the
// session has no cluster key.
func ReadCluster(l layout.Layout, get func(string) string) (Cluster, bool, error) {
	key := l.At(layout.ClusterKey)
	if _, err := os.Stat(key); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return Cluster{}, false, err
	}
	c := Cluster{IdentityFile: key}
	var errs []error
	for host := range strings.SplitSeq(get("BACKENDAI_CLUSTER_HOSTS"), ",") {
		c.Hosts = appendName(c.Hosts, strings.TrimSpace(host))
	}
	replicas := get("BACKENDAI_CLUSTER_REPLICAS")
	if replicas == "" {
		replicas = "main:1"
	}
	for item := range strings.SplitSeq(replicas, ",") {
		role, _, _ := strings.Cut(strings.TrimSpace(item), ":")
		c.Roles = appendName(c.Roles, role)
	}

	data, err := os.ReadFile(l.At(layout.PortMapping))
	switch {
	case err == nil:
		c.Endpoints, err = parseMapping(data)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", layout.PortMapping, err))
		}
		for _, host := range slices.Sorted(maps.Keys(c.Endpoints)) {
			c.Hosts = appendName(c.Hosts, host)
		}
	case !errors.Is(err, fs.ErrNotExist):
		errs = append(errs, err)
	}
	return c, true, errors.Join(errs...)
}

// appendName adds a host or role name once, if it is one: anything else would be more than a word in a config file.
func appendName(names []string, name string) []string {
	if !isName(name) || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

func isName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && (i == 0 || (c != '-' && c != '.' && c != '_')) {
			return false
		}
	}
	return name != "" && len(name) <= 253
}

// parseMapping reads {"host": ["address", port], …}; the good entries are returned beside an error about the others.
func parseMapping(data []byte) (map[string]Endpoint, error) {
	var raw map[string][]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	endpoints := make(map[string]Endpoint, len(raw))
	var errs []error
	for _, host := range slices.Sorted(maps.Keys(raw)) {
		var e Endpoint
		pair := raw[host]
		ok := isName(host) && len(pair) == 2 &&
			json.Unmarshal(pair[0], &e.Address) == nil && isAddress(e.Address) &&
			json.Unmarshal([]byte(strings.Trim(string(pair[1]), `"`)), &e.Port) == nil && e.Port > 0 && e.Port < 1<<16
		if !ok {
			errs = append(errs, fmt.Errorf("entry %q is not a pair of address and port", host))
			continue
		}
		endpoints[host] = e
	}
	return endpoints, errors.Join(errs...)
}

// isAddress accepts host names and IP addresses, nothing that could end a line or a word.
func isAddress(address string) bool {
	return isName(strings.NewReplacer(":", "0", "%", "0").Replace(address))
}
