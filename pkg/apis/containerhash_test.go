// SPDX-License-Identifier: Apache-2.0

package apis_test

import (
	"reflect"
	"slices"
	"testing"

	"agentd/pkg/apis"
)

func TestContainerHashIgnoresRunAndEmptiness(t *testing.T) {
	a := apis.ContainerSpec{EngineName: "kernel.python.k1", Incarnation: 1, Labels: map[string]string{"a": "1", "b": "2"}}
	b := a
	b.Run = true
	b.Labels = map[string]string{"b": "2", "a": "1"}
	b.Env = []string{}
	if got, want := apis.ContainerHash(b), apis.ContainerHash(a); got != want || len(want) != 16 {
		t.Errorf("hash of an equal spec: got %q, want %q of 16 digits", got, want)
	}
}

// TestContainerHashStable pins the value: containers outlive agentd, so a new
// version must find the hash that the old one wrote.
func TestContainerHashStable(t *testing.T) {
	spec := apis.ContainerSpec{
		EngineName: "kernel.python.k1", Incarnation: 2, Image: "cr.example/python:3.13", Hostname: "main1",
		Env: []string{"A=1"}, Labels: map[string]string{apis.LabelKernelID: "k1"},
		Mounts: []apis.Mount{{Source: "/a", Target: "/b", ReadOnly: true}},
	}
	if got, want := apis.ContainerHash(spec), "d0bd935eb0208a46"; got != want {
		t.Errorf("hash = %q, want %q: a field was renamed or is no longer omitted when empty", got, want)
	}
}

// TestContainerHashSeesEveryField changes the fields one by one. Only what
// shall be done with a container leaves the hash alone.
func TestContainerHashSeesEveryField(t *testing.T) {
	base := apis.ContainerHash(apis.ContainerSpec{})
	typ := reflect.TypeFor[apis.ContainerSpec]()
	for i := range typ.NumField() {
		var spec apis.ContainerSpec
		f := reflect.ValueOf(&spec).Elem().Field(i)
		switch f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Int, reflect.Int64:
			f.SetInt(1)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
			f.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("v"))
		default:
			t.Fatalf("field %s has kind %s, which this test cannot set", typ.Field(i).Name, f.Kind())
		}
		same := apis.ContainerHash(spec) == base
		if wantSame := slices.Contains([]string{"Run", "Stop", "StopGrace"}, typ.Field(i).Name); same != wantSame {
			t.Errorf("changing %s: hash unchanged = %v, want %v", typ.Field(i).Name, same, wantSame)
		}
	}
}

func TestOwnedBy(t *testing.T) {
	for _, tc := range []struct {
		name   string
		labels map[string]string
		agent  string
		want   bool
	}{
		{"both labels", map[string]string{apis.LabelAgentID: "i-1", apis.LabelOwner: "i-1"}, "i-1", true},
		{"old label alone", map[string]string{apis.LabelOwner: "i-1"}, "i-1", true},
		{"new label decides", map[string]string{apis.LabelAgentID: "i-2", apis.LabelOwner: "i-1"}, "i-1", false},
		{"other agent", map[string]string{apis.LabelAgentID: "i-2"}, "i-1", false},
		{"no labels", nil, "i-1", false},
		{"no agent ID", map[string]string{apis.LabelAgentID: ""}, "", false},
	} {
		if got := apis.OwnedBy(tc.labels, tc.agent); got != tc.want {
			t.Errorf("%s: OwnedBy = %v, want %v", tc.name, got, tc.want)
		}
	}
}
