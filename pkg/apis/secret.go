// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"fmt"
	"io"
	"reflect"
)

const masked = "***"

// Secret is a string that prints as *** everywhere. Its JSON form is the real
// value, because the checkpoint needs it: whatever leaves the process goes
// through [Redacted] first.
type Secret string

// Reveal returns the real value.
func (s Secret) Reveal() string { return string(s) }

// String returns a mask, or nothing for the empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString masks the value in %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format masks the value under every verb.
func (s Secret) Format(f fmt.State, verb rune) {
	_ = verb
	_, _ = io.WriteString(f, s.String())
}

// MarshalLog masks the value in structured logs (logr).
func (s Secret) MarshalLog() any { return s.String() }

// Redacted returns a deep copy of v in which every Secret is masked.
func Redacted[T any](v T) T {
	out := reflect.New(reflect.TypeFor[T]()).Elem()
	copyInto(out, reflect.ValueOf(&v).Elem(), true)
	return out.Interface().(T) //nolint:forcetypeassert,errcheck // same type by construction
}

// DeepCopy returns a copy of v that shares no memory with it. Unexported
// fields are copied shallowly: they must be immutable values (time.Time).
func DeepCopy[T any](v T) T {
	out := reflect.New(reflect.TypeFor[T]()).Elem()
	copyInto(out, reflect.ValueOf(&v).Elem(), false)
	return out.Interface().(T) //nolint:forcetypeassert,errcheck // same type by construction
}

var secretType = reflect.TypeFor[Secret]()

// copyInto copies src to dst through pointers, maps, slices and structs.
func copyInto(dst, src reflect.Value, mask bool) {
	switch src.Kind() { // everything else is copied by value
	case reflect.Pointer:
		if !src.IsNil() {
			p := reflect.New(src.Type().Elem())
			copyInto(p.Elem(), src.Elem(), mask)
			dst.Set(p)
		}
	case reflect.Interface:
		if !src.IsNil() {
			e := reflect.New(src.Elem().Type()).Elem()
			copyInto(e, src.Elem(), mask)
			dst.Set(e)
		}
	case reflect.Slice:
		if src.IsNil() {
			return
		}
		s := reflect.MakeSlice(src.Type(), src.Len(), src.Len())
		if isFlat(src.Type().Elem(), mask) {
			reflect.Copy(s, src)
		} else {
			for i := range src.Len() {
				copyInto(s.Index(i), src.Index(i), mask)
			}
		}
		dst.Set(s)
	case reflect.Map:
		if src.IsNil() {
			return
		}
		m := reflect.MakeMapWithSize(src.Type(), src.Len())
		flat := isFlat(src.Type().Elem(), mask)
		for it := src.MapRange(); it.Next(); {
			e := it.Value()
			if !flat {
				e = reflect.New(src.Type().Elem()).Elem()
				copyInto(e, it.Value(), mask)
			}
			m.SetMapIndex(it.Key(), e)
		}
		dst.Set(m)
	case reflect.Struct:
		dst.Set(src)
		for i := range src.NumField() {
			if f := dst.Field(i); f.CanSet() && !isFlat(f.Type(), mask) {
				f.SetZero()
				copyInto(f, src.Field(i), mask)
			}
		}
	default:
		dst.Set(src)
		if mask && src.Type() == secretType {
			dst.SetString(Secret(src.String()).String())
		}
	}
}

// isFlat tells that values of the type hold no pointers to mutable memory and,
// when masking, no secret.
func isFlat(t reflect.Type, mask bool) bool {
	switch t.Kind() { //nolint:exhaustive // everything else is not flat
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return true
	case reflect.String:
		return !mask || t != secretType
	}
	return false
}
