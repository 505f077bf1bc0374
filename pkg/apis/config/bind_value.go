// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"agentd/pkg/apis"
)

// field is one key of the schema, as the struct tags describe it.
type field struct {
	index    []int
	name     string
	aliases  []string
	retired  []string
	words    []string
	bounds   string
	use      string
	required bool
	secret   bool
}

// fieldsOf returns the keys of a table, in the order of the struct. The fields
// of an embedded struct are keys of the same table.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		sf := t.Field(i)
		if sf.Anonymous {
			for _, f := range fieldsOf(sf.Type) {
				f.index = append([]int{i}, f.index...)
				out = append(out, f)
			}
			continue
		}
		name, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		out = append(out, field{
			index:    []int{i},
			name:     name,
			aliases:  split(sf.Tag.Get("alias"), ","),
			retired:  split(sf.Tag.Get("was"), ","),
			words:    split(sf.Tag.Get("enum"), "|"),
			bounds:   sf.Tag.Get("range"),
			use:      sf.Tag.Get("use"),
			required: sf.Tag.Get("required") != "",
			secret:   sf.Type == reflect.TypeFor[apis.Secret](),
		})
	}
	return out
}

func split(s, sep string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, sep)
}

// isTable tells structs that are tables from structs that are values.
func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[decoder]())
}

// value reads a key that is not a table.
func (b *binder) value(v reflect.Value, n *node, f field) {
	err := b.decode(v, n, f)
	if err == nil {
		err = f.check(v)
	}
	if err == nil {
		return
	}
	mismatch, ok := errors.AsType[*mismatchError](err)
	switch {
	case !ok:
		b.fail(n, err.Error())
	case f.secret:
		b.fail(n, "expected "+f.expects(v)+", found "+n.kind())
	default:
		b.fail(n, mismatch.prefix+"expected "+f.expects(v)+", found "+n.found())
	}
}

func (b *binder) decode(v reflect.Value, n *node, f field) error {
	if d, ok := reflect.TypeAssert[decoder](v.Addr()); ok {
		return d.decode(n, b.m)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if s, ok := n.value.(string); ok && s == "" {
			return nil // an empty text stands for "none", which TOML lacks
		}
		p := reflect.New(v.Type().Elem())
		if err := b.decode(p.Elem(), n, f); err != nil {
			return err
		}
		v.Set(p)
	case reflect.String:
		s, ok := n.value.(string)
		if !ok || (f.words != nil && !slices.Contains(f.words, s)) {
			return errMismatch
		}
		v.SetString(s)
	case reflect.Bool:
		x, ok := boolOf(n.value)
		if !ok {
			return errMismatch
		}
		v.SetBool(x)
	case reflect.Int:
		x, ok := intOf(n.value)
		if !ok {
			return errMismatch
		}
		v.SetInt(x)
	case reflect.Slice:
		list, ok := n.value.([]*node)
		if !ok {
			return errMismatch
		}
		s := reflect.MakeSlice(v.Type(), len(list), len(list))
		for i, e := range list {
			if err := b.decode(s.Index(i), e, f); err != nil {
				return err
			}
		}
		v.Set(s)
	case reflect.Map:
		return b.decodeMap(v, n, f)
	default:
		return fmt.Errorf("the schema has no reader for values of this key")
	}
	return nil
}

// decodeMap reads a table whose keys are free. Wrong values in it are reported
// under their own key.
func (b *binder) decodeMap(v reflect.Value, n *node, f field) error {
	t := n.table()
	if t == nil {
		return errMismatch
	}
	elem := v.Type().Elem()
	m := reflect.MakeMapWithSize(v.Type(), len(t))
	for _, k := range slices.Sorted(maps.Keys(t)) {
		e := reflect.New(elem).Elem()
		if elem.Kind() == reflect.Interface {
			e.Set(reflect.ValueOf(t[k].plain()))
		} else {
			b.value(e, t[k], field{words: f.words, bounds: f.bounds})
		}
		m.SetMapIndex(reflect.ValueOf(k), e)
	}
	v.Set(m)
	return nil
}

// boolOf also takes the words that the reference takes for booleans.
func boolOf(value any) (result, ok bool) {
	switch v := value.(type) {
	case bool:
		return v, true
	case int64:
		return v == 1, v == 0 || v == 1
	case string:
		switch strings.ToLower(v) {
		case "true", "yes", "on", "y", "t", "1":
			return true, true
		case "false", "no", "off", "n", "f", "0":
			return false, true
		}
	}
	return false, false
}

// intOf also takes texts and whole floating-point numbers.
func intOf(value any) (int64, bool) {
	switch v := value.(type) {
	case int64:
		return v, true
	case float64:
		if v != math.Trunc(v) || math.Abs(v) >= 1<<53 {
			return 0, false
		}
		return int64(v), true
	case string:
		i, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		return i, err == nil
	}
	return 0, false
}

// check compares a number with the bounds of its key.
func (f field) check(v reflect.Value) error {
	if f.bounds == "" {
		return nil
	}
	var x float64
	switch s, ok := reflect.TypeAssert[interface{ Seconds() float64 }](v); {
	case ok:
		x = s.Seconds()
	case v.CanInt():
		x = float64(v.Int())
	default:
		return nil
	}
	low, high, open := f.limits()
	if x < low || x > high || (open && x == low) {
		return errMismatch
	}
	return nil
}

// limits reads bounds such as "1..32", "0.." and ">0..".
func (f field) limits() (low, high float64, open bool) {
	lo, hi, _ := strings.Cut(f.bounds, "..")
	lo, open = strings.CutPrefix(lo, ">")
	low, high = math.Inf(-1), math.Inf(1)
	if x, err := strconv.ParseFloat(lo, 64); err == nil {
		low = x
	}
	if x, err := strconv.ParseFloat(hi, 64); err == nil {
		high = x
	}
	return low, high, open
}

// expects says what the key accepts, to complete "expected …".
func (f field) expects(v reflect.Value) string {
	return f.typeText(v.Type()) + f.boundsText()
}

func (f field) typeText(t reflect.Type) string {
	if d, ok := reflect.TypeAssert[decoder](reflect.New(t)); ok {
		return d.expects()
	}
	switch t.Kind() { //nolint:exhaustive // the kinds of the schema
	case reflect.Pointer:
		return f.typeText(t.Elem())
	case reflect.String:
		if f.words != nil {
			return alternatives(f.words)
		}
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Slice:
		if f.words != nil {
			return "a list of " + alternatives(f.words)
		}
		return `a list of texts such as ["a", "b"]`
	}
	return "a table"
}

func (f field) boundsText() string {
	if f.bounds == "" {
		return ""
	}
	lo, hi, _ := strings.Cut(f.bounds, "..")
	if above, open := strings.CutPrefix(lo, ">"); open {
		return ", more than " + above
	}
	if hi == "" {
		return ", at least " + lo
	}
	return ", from " + lo + " to " + hi
}

// alternatives writes "a", "b" or "c" with quotes.
func alternatives(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	last := len(quoted) - 1
	if last == 0 {
		return quoted[0]
	}
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}
