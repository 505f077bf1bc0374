// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/pkg/apis"
)

type tree struct {
	Name     string
	Time     time.Time
	Map      map[string]string
	Named    labels
	List     []string
	Bytes    []byte
	Secrets  map[string]apis.Secret
	Deep     map[string]map[int][]string
	Structs  []leaf
	Array    [2][]int
	Pointer  *int
	Double   **leaf
	Any      any
	Children []*tree
	ByName   map[string]tree
	hidden   []string
}

type (
	labels map[string]string
	leaf   struct{ Tags []string }
)

func fullTree(depth int) *tree {
	n, l := depth, &leaf{Tags: []string{"p"}}
	t := &tree{
		Name: "n", Time: time.Now(), Map: map[string]string{"k": "v"}, Named: labels{"k": "v"}, List: []string{"l"},
		Bytes: []byte("b"), Secrets: map[string]apis.Secret{"s": "t"}, Deep: map[string]map[int][]string{"d": {1: {"x"}}, "nil": nil},
		Structs: []leaf{{Tags: []string{"s"}}, {}}, Array: [2][]int{{1}, nil}, Pointer: &n, Double: &l,
		Any: map[string]any{"a": []int{1}, "nil": nil}, hidden: []string{"h"},
	}
	if depth > 0 {
		t.Children = []*tree{fullTree(depth - 1), nil}
		t.ByName = map[string]tree{"c": *fullTree(depth - 1)}
	}
	return t
}

// shared reports memory that two values have in common, but for unexported fields.
func shared(a, b reflect.Value, path string) string {
	switch a.Kind() { //nolint:exhaustive // everything else shares nothing
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if a.IsNil() || a.Kind() != reflect.Pointer && a.Len() == 0 {
			return ""
		}
		if a.UnsafePointer() == b.UnsafePointer() {
			return path
		}
	}
	switch a.Kind() { //nolint:exhaustive // the same
	case reflect.Pointer, reflect.Interface:
		if !a.IsNil() {
			return shared(a.Elem(), b.Elem(), path+".*")
		}
	case reflect.Map:
		for _, k := range a.MapKeys() {
			if s := shared(a.MapIndex(k), b.MapIndex(k), path+"."+k.String()); s != "" {
				return s
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range a.Len() {
			if s := shared(a.Index(i), b.Index(i), path+"[]"); s != "" {
				return s
			}
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				if s := shared(a.Field(i), b.Field(i), path+"."+f.Name); s != "" {
					return s
				}
			}
		}
	}
	return ""
}

func checkCopy[T any](t rapid.TB, v T) {
	t.Helper()
	c := v
	ownCopy[T]()(&c)
	if !reflect.DeepEqual(v, c) {
		t.Errorf("differs:\n%s", cmp.Diff(v, c, cmp.Exporter(func(reflect.Type) bool { return true })))
	}
	if s := shared(reflect.ValueOf(v), reflect.ValueOf(c), "value"); s != "" {
		t.Errorf("%T: %s is shared", v, s)
	}
}

func TestCopy(t *testing.T) {
	checkCopy(t, *fullTree(3))
	checkCopy(t, fullTree(1))
	checkCopy(t, tree{})
	checkCopy(t, tree{Map: map[string]string{}, List: []string{}, Deep: map[string]map[int][]string{}})
	checkCopy(t, 5)
	checkCopy[any](t, []string{"x"})
}

// TestCopyOfEveryKind fills the objects that agentd has at random.
func TestCopyOfEveryKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkCopy(t, rapid.Make[apis.KernelSpec]().Draw(t, "kernel spec"))
		checkCopy(t, rapid.Make[apis.KernelStatus]().Draw(t, "kernel status"))
		checkCopy(t, rapid.Make[apis.ContainerSpec]().Draw(t, "container spec"))
		checkCopy(t, rapid.Make[apis.ContainerStatus]().Draw(t, "container status"))
		checkCopy(t, rapid.Make[apis.ClusterSessionSpec]().Draw(t, "session spec"))
		checkCopy(t, rapid.Make[apis.BindingStatus]().Draw(t, "binding status"))
		checkCopy(t, rapid.Make[apis.ScratchSpec]().Draw(t, "scratch spec"))
	})
}
