// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		replicas map[string]int
		want     []Host
	}{
		{map[string]int{"main": 1}, []Host{{"main1", "main", 1, 0}}},
		{map[string]int{"sub": 2, "main": 1}, []Host{{"main1", "main", 1, 0}, {"sub1", "sub", 1, 1}, {"sub2", "sub", 2, 2}}},
		{map[string]int{"a": 1, "master": 1, "z-w": 1}, []Host{{"master1", "master", 1, 0}, {"a1", "a", 1, 1}, {"z-w1", "z-w", 1, 2}}},
		{map[string]int{"only": 1}, []Host{{"only1", "only", 1, 0}}},
	} {
		got, err := Hosts(c.replicas)
		if err != nil {
			t.Errorf("%v: %v", c.replicas, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v: %s", c.replicas, diff)
		}
	}
}

func TestHostsRefused(t *testing.T) {
	for _, c := range []struct {
		replicas map[string]int
		names    string
	}{
		{nil, "no role"},
		{map[string]int{"main": 0}, `"main"`},
		{map[string]int{"main": -1}, `"main"`},
		{map[string]int{"main": 2_000_000_000}, "2000000000"},
		{map[string]int{"main": MaxHosts, "sub": 1}, `"sub"`},
		{map[string]int{"": 1}, "without a name"},
		{map[string]int{"-x": 1}, `"-x1"`},
		{map[string]int{"a_b": 1}, `"a_b1"`},
		{map[string]int{"a.b": 1}, `"a.b1"`},
		{map[string]int{"a/../b": 1}, `"a/../b1"`},
		{map[string]int{"a\n": 1}, `"a\n1"`},
		{map[string]int{strings.Repeat("x", 63): 1}, "at most 63"},
		{map[string]int{"sub": 11, "sub1": 1}, `"sub11"`},
		{map[string]int{"sub": 1, "Sub": 1}, "used twice"},
	} {
		if hosts, err := Hosts(c.replicas); !errors.Is(err, ErrHosts) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%v: %v hosts, %v", c.replicas, len(hosts), err)
		}
	}
}

// The values are those recorded between manager and agent of 26.8.
func TestCompleteEnv(t *testing.T) {
	replicas := map[string]int{"main": 1, "sub": 2}
	self := Host{Name: "sub1", Role: "sub", Index: 1, LocalRank: 1}
	full := map[string]string{
		EnvSize: "3", EnvReplicas: "main:1,sub:2", EnvHosts: "main1,sub1,sub2",
		EnvHost: "sub1", EnvRole: "sub", EnvIndex: "1", EnvLocalRank: "1",
	}
	computed, err := ClusterEnv(replicas, self)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full, computed); diff != "" {
		t.Errorf("ClusterEnv: %s", diff)
	}
	for _, c := range []struct {
		name        string
		given, want map[string]string
		wrong       []string
	}{
		{"nothing given", nil, nil, nil},
		{"the manager's order of hosts", map[string]string{EnvHosts: "sub1,main1,sub2"}, nil, nil},
		{"others are kept", map[string]string{"FOO": "bar", EnvSize: ""}, map[string]string{"FOO": "bar", EnvSize: "3"}, nil},
		{"contradictions", map[string]string{EnvSize: "4", EnvHosts: "main1,sub1", EnvRole: "main"}, nil, []string{EnvSize, EnvHosts, EnvRole}},
	} {
		want := map[string]string{}
		for _, m := range []map[string]string{full, c.given, c.want} {
			maps.Copy(want, m)
		}
		got, err := CompleteEnv(c.given, replicas, self)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if (err != nil) != (len(c.wrong) > 0) {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, name := range c.wrong {
			if !errors.Is(err, ErrEnv) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v does not name %s", c.name, err, name)
			}
		}
	}
	for _, stranger := range []Host{{"sub3", "sub", 3, 1}, {"sub1", "sub", 1, 3}, {"sub1", "sub", 1, -1}} {
		if _, err := CompleteEnv(nil, replicas, stranger); !errors.Is(err, ErrEnv) {
			t.Errorf("%+v: %v", stranger, err)
		}
	}
	if _, err := CompleteEnv(nil, nil, self); !errors.Is(err, ErrHosts) {
		t.Errorf("no replicas: %v", err)
	}
}
