// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrHosts says that the kernels of a session cannot be named as asked.
var ErrHosts = errors.New("invalid cluster hosts")

// MaxHosts bounds the kernels of one session.
const MaxHosts = 4096

// Host is one kernel's place in its session.
type Host struct {
	// Name is role and index: main1, sub1.
	Name string
	Role string
	// Index counts from 1 within the role.
	Index int
	// LocalRank counts from 0 over the session.
	LocalRank int
}

// IsMain reports whether a role is that of the kernel that users talk to; old
// releases call it master.
func IsMain(role string) bool { return role == "main" || role == "master" }

// Hosts lists the kernels of a session from the number of kernels of each
// role: the main role first, then the others by name. It fails with [ErrHosts]
// if a count or a resulting name is not usable.
func Hosts(replicas map[string]int) ([]Host, error) {
	var hosts []Host
	for _, role := range Roles(replicas) {
		count := replicas[role]
		if role == "" {
			return nil, fmt.Errorf("a role without a name: %w", ErrHosts)
		}
		if count < 1 || count > MaxHosts-len(hosts) {
			return nil, fmt.Errorf("role %q with %d kernels: a session has 1 to %d: %w", role, count, MaxHosts, ErrHosts)
		}
		for index := 1; index <= count; index++ {
			hosts = append(hosts, Host{Name: role + strconv.Itoa(index), Role: role, Index: index, LocalRank: len(hosts)})
		}
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("no role: a session has at least one kernel: %w", ErrHosts)
	}
	return hosts, CheckNames(Names(hosts))
}

// Roles returns the roles in order: main ones first, then by name.
func Roles(replicas map[string]int) []string {
	roles := slices.Sorted(maps.Keys(replicas))
	slices.SortStableFunc(roles, func(a, b string) int {
		switch {
		case IsMain(a) == IsMain(b):
			return 0
		case IsMain(a):
			return -1
		default:
			return 1
		}
	})
	return roles
}

// Names returns the host names in order.
func Names(hosts []Host) []string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	return names
}

// CheckNames makes sure that every name is one label of RFC 1123 (letters,
// digits and inner hyphens, at most 63) and that no two are equal, upper and
// lower case being the same to DNS.
func CheckNames(names []string) error {
	var errs []error
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		folded := strings.ToLower(name)
		switch {
		case !isLabel(name):
			errs = append(errs, fmt.Errorf("host name %q: use letters, digits and inner hyphens, at most 63: %w", name, ErrHosts))
		case seen[folded]:
			errs = append(errs, fmt.Errorf("host name %q: used twice: %w", name, ErrHosts))
		}
		seen[folded] = true
	}
	return errors.Join(errs...)
}

// isLabel reports whether s is a label of RFC 1123.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
