// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"
	"reflect"
	"slices"
)

// unshare replaces the memory that v shares with the value it was assigned
// from by copies. v is addressable.
type unshare func(v reflect.Value)

// ownCopy returns a function that makes the value behind a pointer a deep copy
// of what was assigned to it. It copies as [apis.DeepCopy] does, several times
// faster: what there is to do for T is found out once, and the maps and slices
// of strings that fill most objects are cloned without reflection. Unexported
// fields are copied shallowly, here as there.
func ownCopy[T any]() func(*T) {
	fix := make(unsharers).of(reflect.TypeFor[T]())
	return func(p *T) {
		if fix != nil {
			fix(reflect.ValueOf(p).Elem())
		}
	}
}

// unsharers are the functions made so far, by type, while one is being made:
// types may contain themselves.
type unsharers map[reflect.Type]*unshare

// of returns what is to be done for values of the type; nil for nothing.
func (u unsharers) of(t reflect.Type) unshare {
	if known, ok := u[t]; ok {
		return func(v reflect.Value) { (*known)(v) }
	}
	fn := new(unshare)
	switch t.Kind() { //nolint:exhaustive // everything else shares nothing
	case reflect.Pointer, reflect.Slice, reflect.Map:
		u[t] = fn
		*fn = u.ofReference(t)
		delete(u, t)
	case reflect.Interface:
		*fn = unshareInterface
	case reflect.Array:
		*fn = u.ofArray(t)
	case reflect.Struct:
		*fn = u.ofStruct(t)
	}
	return *fn
}

func (u unsharers) ofReference(t reflect.Type) unshare {
	switch t {
	case reflect.TypeFor[map[string]string]():
		return func(v reflect.Value) {
			if p, ok := reflect.TypeAssert[*map[string]string](v.Addr()); ok {
				*p = maps.Clone(*p)
			}
		}
	case reflect.TypeFor[[]string]():
		return func(v reflect.Value) {
			if p, ok := reflect.TypeAssert[*[]string](v.Addr()); ok {
				*p = slices.Clone(*p)
			}
		}
	}
	elem := u.of(t.Elem())
	switch t.Kind() { //nolint:exhaustive // the three that the caller lets through
	case reflect.Pointer:
		return func(v reflect.Value) {
			if v.IsNil() {
				return
			}
			n := reflect.New(t.Elem())
			n.Elem().Set(v.Elem())
			if elem != nil {
				elem(n.Elem())
			}
			v.Set(n)
		}
	case reflect.Slice:
		return func(v reflect.Value) {
			if v.IsNil() {
				return
			}
			n := reflect.MakeSlice(t, v.Len(), v.Len())
			reflect.Copy(n, v)
			for i := 0; elem != nil && i < n.Len(); i++ {
				elem(n.Index(i))
			}
			v.Set(n)
		}
	}
	return func(v reflect.Value) {
		if v.IsNil() {
			return
		}
		n := reflect.MakeMapWithSize(t, v.Len())
		for it := v.MapRange(); it.Next(); {
			e := it.Value()
			if elem != nil {
				e = reflect.New(t.Elem()).Elem()
				e.Set(it.Value())
				elem(e)
			}
			n.SetMapIndex(it.Key(), e)
		}
		v.Set(n)
	}
}

func (u unsharers) ofArray(t reflect.Type) unshare {
	elem := u.of(t.Elem())
	if elem == nil {
		return nil
	}
	return func(v reflect.Value) {
		for i := range v.Len() {
			elem(v.Index(i))
		}
	}
}

func (u unsharers) ofStruct(t reflect.Type) unshare {
	type field struct {
		index int
		fix   unshare
	}
	var fields []field
	for i := range t.NumField() {
		if !t.Field(i).IsExported() {
			continue
		}
		if fix := u.of(t.Field(i).Type); fix != nil {
			fields = append(fields, field{i, fix})
		}
	}
	if fields == nil {
		return nil
	}
	return func(v reflect.Value) {
		for _, f := range fields {
			f.fix(v.Field(f.index))
		}
	}
}

// unshareInterface finds out what to do anew each time: no kind of object holds interfaces.
func unshareInterface(v reflect.Value) {
	if v.IsNil() {
		return
	}
	e := reflect.New(v.Elem().Type()).Elem()
	e.Set(v.Elem())
	if fix := make(unsharers).of(e.Type()); fix != nil {
		fix(e)
	}
	v.Set(e)
}
