// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"agentd/pkg/apis"
)

// FileError says what is wrong at one place of a session file. It is of class
// [apis.ErrInvalid].
type FileError struct {
	File string
	// Line counts from 1; 0 for the whole file.
	Line int
	// Field is the dotted path, such as spec.replicas[1].count.
	Field string
	// Text says what is accepted and what was found.
	Text string
}

// Error returns "file:line: field: text".
func (e *FileError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	return b.String() + ": " + e.Text
}

// Is puts every FileError into the class of invalid input.
func (e *FileError) Is(target error) bool { return target == apis.ErrInvalid }

// problems collects what is wrong with one file.
type problems struct {
	file string
	list []*FileError
}

// maxProblems is how many are worth reading.
const maxProblems = 50

func (p *problems) add(line int, field, format string, args ...any) {
	p.list = append(p.list, &FileError{File: p.file, Line: line, Field: field, Text: fmt.Sprintf(format, args...)})
}

// err returns all problems as one error, in the order of the file.
func (p *problems) err() error {
	slices.SortStableFunc(p.list, func(a, b *FileError) int { return cmp.Compare(a.Line, b.Line) })
	var errs []error
	for i, e := range p.list {
		if i == maxProblems {
			errs = append(errs, &FileError{File: p.file, Text: fmt.Sprintf("and %d more", len(p.list)-i)})
			break
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

var syntaxLine = regexp.MustCompile(`^yaml: line (\d+): `)

// documents reads the YAML documents of a file; empty ones are left out.
func documents(data []byte, p *problems) []*yaml.Node {
	var out []*yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			text, line := err.Error(), 0
			if m := syntaxLine.FindStringSubmatch(text); m != nil {
				line, _ = strconv.Atoi(m[1]) // digits; 0 if there are too many of them
				text = text[len(m[0]):]
			}
			p.add(line, "", "this is not YAML: %s", strings.TrimPrefix(text, "yaml: "))
			return out
		case len(doc.Content) == 1 && doc.Content[0].Tag != "!!null":
			out = append(out, doc.Content[0])
		}
	}
}

// decoder puts YAML nodes into Go values whose fields have JSON tags. It is
// strict: nothing unknown, nothing twice, no type that is nearly right.
type decoder struct {
	p *problems
	// lines remembers where each field stood, for problems found later.
	lines map[string]int
}

// amount is a text that may also be written as a number.
type amount string

var amountType = reflect.TypeFor[amount]()

// line returns where a field, or the nearest one around it, stands.
func (d *decoder) line(field string) int {
	for field != "" {
		if n, ok := d.lines[field]; ok {
			return n
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return d.lines[""]
}

func (d *decoder) into(v reflect.Value, n *yaml.Node, field string) {
	d.lines[field] = n.Line
	if n.Kind == yaml.AliasNode {
		d.p.add(n.Line, field, "aliases (*%s) are not supported here; write the value out", n.Value)
		return
	}
	switch {
	case v.Type() == amountType:
		d.scalar(v, n, field, "a number or a text such as 512m", "!!str", "!!int", "!!float")
		return
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.into(v.Elem(), n, field)
		return
	}
	switch v.Kind() { //nolint:exhaustive // these are the kinds that session files are made of
	case reflect.Struct:
		d.fields(v, n, field)
	case reflect.Map:
		d.entries(v, n, field)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.mismatch(n, field, "a list")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, e := range n.Content {
			d.into(v.Index(i), e, fmt.Sprintf("%s[%d]", field, i))
		}
	case reflect.String:
		d.scalar(v, n, field, "a text", "!!str")
	case reflect.Int:
		d.scalar(v, n, field, "a whole number", "!!int")
	case reflect.Bool:
		d.scalar(v, n, field, "true or false", "!!bool")
	}
}

func (d *decoder) scalar(v reflect.Value, n *yaml.Node, field, want string, tags ...string) {
	if n.Kind != yaml.ScalarNode || !slices.Contains(tags, n.ShortTag()) {
		d.mismatch(n, field, want)
		return
	}
	switch v.Kind() { //nolint:exhaustive // see into
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Int:
		i, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 0)
		if err != nil {
			d.mismatch(n, field, want)
			return
		}
		v.SetInt(i)
	case reflect.Bool:
		var b bool
		if err := n.Decode(&b); err != nil {
			d.mismatch(n, field, want)
			return
		}
		v.SetBool(b)
	}
}

// pairs calls fn for each entry of a mapping, and reports what stands there twice.
func (d *decoder) pairs(n *yaml.Node, field string, fn func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.mismatch(n, field, "a mapping (name: value)")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch first, dup := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			d.p.add(key.Line, field, "a name is expected before the colon")
			continue
		case dup:
			d.p.add(key.Line, join(field, key.Value), "is given twice; first on line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		fn(key, value)
	}
}

func (d *decoder) fields(v reflect.Value, n *yaml.Node, field string) {
	index := map[string][]int{}
	var names []string
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		index[name] = f.Index
		names = append(names, name)
	}
	d.pairs(n, field, func(key, value *yaml.Node) {
		at, ok := index[key.Value]
		if !ok {
			d.p.add(key.Line, join(field, key.Value), "unknown field; known are %s", strings.Join(names, ", "))
			return
		}
		if value.ShortTag() == "!!null" { // "environ:" with nothing after it is as good as absent
			return
		}
		d.into(v.FieldByIndex(at), value, join(field, key.Value))
	})
}

func (d *decoder) entries(v reflect.Value, n *yaml.Node, field string) {
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, field, func(key, value *yaml.Node) {
		e := reflect.New(v.Type().Elem()).Elem()
		d.into(e, value, join(field, key.Value))
		v.SetMapIndex(reflect.ValueOf(key.Value), e)
	})
}

func (d *decoder) mismatch(n *yaml.Node, field, want string) {
	d.p.add(n.Line, field, "expected %s, found %s", want, describe(n))
}

// describe says what a node is, for people.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode, yaml.DocumentNode, yaml.ScalarNode:
	}
	text := n.Value
	if len(text) > 40 {
		text = text[:40] + "…"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!str":
		return fmt.Sprintf("the text %q", text)
	}
	return fmt.Sprintf("%s, which is %s without quotes", text, tagName(n.ShortTag()))
}

func tagName(tag string) string {
	switch tag {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	}
	return "of type " + strings.TrimPrefix(tag, "!!")
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}
