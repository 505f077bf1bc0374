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

// The variables that tell a kernel about its cluster (20.09 to 26.8).
const (
	EnvSize      = "BACKENDAI_CLUSTER_SIZE"
	EnvReplicas  = "BACKENDAI_CLUSTER_REPLICAS"
	EnvHosts     = "BACKENDAI_CLUSTER_HOSTS"
	EnvHost      = "BACKENDAI_CLUSTER_HOST"
	EnvRole      = "BACKENDAI_CLUSTER_ROLE"
	EnvIndex     = "BACKENDAI_CLUSTER_IDX"
	EnvLocalRank = "BACKENDAI_CLUSTER_LOCAL_RANK"
)

// ErrEnv says that the environment given for a kernel contradicts its session.
var ErrEnv = errors.New("cluster environment contradicts the session")

// EnvError says which variable is wrong.
type EnvError struct {
	Name      string
	Got, Want string
}

// Error names the variable, its value and the value that would be right.
func (e *EnvError) Error() string {
	return fmt.Sprintf("%s is %q, the session says %q: %v", e.Name, e.Got, e.Want, ErrEnv)
}

// Unwrap returns [ErrEnv].
func (e *EnvError) Unwrap() error { return ErrEnv }

// ClusterEnv returns all cluster variables of one kernel.
func ClusterEnv(replicas map[string]int, self Host) (map[string]string, error) {
	hosts, err := Hosts(replicas)
	if err != nil {
		return nil, err
	}
	counts := make([]string, 0, len(replicas))
	for _, role := range slices.Sorted(maps.Keys(replicas)) {
		counts = append(counts, role+":"+strconv.Itoa(replicas[role]))
	}
	return map[string]string{
		EnvSize:      strconv.Itoa(len(hosts)),
		EnvReplicas:  strings.Join(counts, ","),
		EnvHosts:     strings.Join(Names(hosts), ","),
		EnvHost:      self.Name,
		EnvRole:      self.Role,
		EnvIndex:     strconv.Itoa(self.Index),
		EnvLocalRank: strconv.Itoa(self.LocalRank),
	}, nil
}

// CompleteEnv returns the given environment with the cluster variables that it
// lacks. What is given is kept: the manager's order of hosts, for example,
// depends on the order of its records. Given variables that contradict the
// session are named in an error that wraps [ErrEnv], beside the result.
func CompleteEnv(given map[string]string, replicas map[string]int, self Host) (map[string]string, error) {
	computed, err := ClusterEnv(replicas, self)
	if err != nil {
		return nil, err
	}
	complete := make(map[string]string, len(given)+len(computed))
	maps.Copy(complete, given)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(computed)) {
		want := computed[name]
		got := given[name]
		switch {
		case got == "":
			complete[name] = want
		case !sameValue(name, got, want):
			errs = append(errs, &EnvError{Name: name, Got: got, Want: want})
		}
	}
	hosts := strings.Split(computed[EnvHosts], ",")
	if !slices.Contains(hosts, self.Name) {
		errs = append(errs, &EnvError{Name: EnvHost, Got: self.Name, Want: "one of " + computed[EnvHosts]})
	}
	if self.LocalRank < 0 || self.LocalRank >= len(hosts) {
		errs = append(errs, &EnvError{Name: EnvLocalRank, Got: strconv.Itoa(self.LocalRank), Want: fmt.Sprintf("0 to %d", len(hosts)-1)})
	}
	return complete, errors.Join(errs...)
}

// sameValue compares two values of a variable; lists may be in any order.
func sameValue(name, got, want string) bool {
	if name != EnvHosts && name != EnvReplicas {
		return got == want
	}
	a, b := strings.Split(got, ","), strings.Split(want, ",")
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
