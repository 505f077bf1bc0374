// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// binder fills a Config from a tree, collecting every error instead of
// stopping at the first.
type binder struct {
	file   string
	m      *Machine
	root   *Config
	errs   []*KeyError
	report *Report
}

// fail records what is wrong with a value that is there.
func (b *binder) fail(n *node, text string) {
	b.errs = append(b.errs, &KeyError{File: b.file, Line: n.line, Env: n.env, Key: n.path, Text: text})
}

// missing records that a key is not there; table is where it belongs, or nil.
func (b *binder) missing(table *node, key, text string) {
	e := &KeyError{File: b.file, Key: key, Text: text}
	if table != nil {
		e.Line, e.Env = table.line, table.env
		e.Key = join(table.path, key)
	}
	b.errs = append(b.errs, e)
}

func (b *binder) warn(kind NoticeKind, n *node, text string) {
	b.report.Warnings = append(b.report.Warnings, Notice{Kind: kind, Key: n.path, Line: n.line, Env: n.env, Text: text})
}

// table fills a struct from n, which may be nil: then only the origins are
// noted. quiet suppresses notices on unused keys, for tables noted as a whole.
func (b *binder) table(v reflect.Value, n *node, canon string, quiet bool) {
	if n != nil && n.table() == nil {
		b.fail(n, "expected a table ["+canon+"], found "+n.found())
		return
	}
	spelled := map[string][]*node{}
	for _, c := range inOrder(n.table()) {
		k := kebab(c.name)
		spelled[k] = append(spelled[k], c)
	}
	for _, f := range fieldsOf(v.Type()) {
		c := b.pick(f, spelled)
		if c == nil && n != nil && f.required {
			b.missing(n, f.name, "is missing: expected "+f.expects(v.FieldByIndex(f.index)))
		}
		b.field(v.FieldByIndex(f.index), c, f, dotted(canon, f.name), quiet)
	}
	for _, c := range inOrder(n.table()) {
		if _, left := spelled[kebab(c.name)]; left {
			b.warn(Unknown, c, b.unknownText(v.Type(), c.name))
		}
	}
}

// pick takes the node of a field out of spelled. A key has several spellings:
// the first one of name, aliases and retired names counts.
func (b *binder) pick(f field, spelled map[string][]*node) *node {
	var first *node
	for _, name := range slices.Concat([]string{f.name}, f.aliases, f.retired) {
		for _, n := range spelled[name] {
			if first != nil {
				b.warn(Shadowed, n, "is ignored: "+first.path+" sets the same")
				continue
			}
			first = n
			if slices.Contains(f.retired, name) {
				b.warn(Deprecated, n, fmt.Sprintf("is a retired name, taken as %q; rename it", f.name))
			}
		}
		delete(spelled, name)
	}
	return first
}

// field fills one field of a struct.
func (b *binder) field(v reflect.Value, n *node, f field, canon string, quiet bool) {
	if n != nil && f.use != "" && !quiet && !(isTable(v.Type()) && len(n.table()) == 0) {
		notice := Notice{Kind: NotYet, Key: n.path, Line: n.line, Env: n.env, Text: "is accepted, but not used yet"}
		if f.use == "none" {
			notice.Kind, notice.Text = Meaningless, "is accepted, but has no meaning for agentd"
		}
		b.report.Unused = append(b.report.Unused, notice)
	}
	quiet = quiet || f.use != ""

	switch t := v.Type(); {
	case t == reflect.TypeFor[[]AgentEntry]():
		b.origin(canon, n)
		b.agents(v, n)
		return
	case isTable(t):
		b.table(v, n, canon, quiet)
		return
	case t.Kind() == reflect.Pointer && isTable(t.Elem()):
		b.origin(canon, n)
		if n == nil {
			return
		}
		p := reflect.New(t.Elem())
		if d, ok := reflect.TypeAssert[defaulter](p); ok {
			d.defaults()
		}
		b.table(p.Elem(), n, canon, quiet)
		v.Set(p)
		return
	case t.Kind() == reflect.Slice && isTable(t.Elem()):
		b.origin(canon, n)
		if n == nil {
			return
		}
		list, ok := n.value.([]*node)
		if !ok {
			b.fail(n, "expected a list of tables [["+canon+"]], found "+n.found())
			return
		}
		s := reflect.MakeSlice(t, len(list), len(list))
		for i, e := range list {
			b.table(s.Index(i), e, element(canon, i), quiet)
		}
		v.Set(s)
		return
	}
	b.origin(canon, n)
	if n != nil {
		b.value(v, n, f)
	}
}

func (b *binder) origin(canon string, n *node) {
	o := Origin{Key: canon}
	if n != nil {
		o.Line, o.Env = n.line, n.env
		if n.line > 0 {
			o.File = b.file
		}
	}
	b.report.Origins = append(b.report.Origins, o)
}

// agents fills the list of agents. Each starts as a copy of the common tables,
// which come before it in the schema and so are complete.
func (b *binder) agents(v reflect.Value, n *node) {
	if n == nil {
		return
	}
	list, ok := n.value.([]*node)
	if !ok {
		b.fail(n, "expected a list of tables [[agents]], found "+n.found())
		return
	}
	entries := make([]AgentEntry, len(list))
	for i, e := range list {
		entries[i] = AgentEntry{
			Agent:     b.root.Agent.AgentNode,
			Container: b.root.Container.ContainerNode,
			Resource:  b.root.Resource.Allocations,
		}
		if t := e.table(); t != nil && t["agent"] == nil {
			b.missing(e, "agent", "the table is missing: every entry of [[agents]] needs one, with at least an id")
		}
		b.table(reflect.ValueOf(&entries[i]).Elem(), e, element("agents", i), true)
	}
	v.Set(reflect.ValueOf(entries))
}

// unknownText says that a key is not known, and what may have been meant.
func (b *binder) unknownText(t reflect.Type, name string) string {
	whole := map[reflect.Type]reflect.Type{
		reflect.TypeFor[AgentNode]():     reflect.TypeFor[Agent](),
		reflect.TypeFor[ContainerNode](): reflect.TypeFor[Container](),
	}[t]
	k := kebab(name)
	if whole != nil && slices.ContainsFunc(fieldsOf(whole), func(f field) bool { return f.name == k || slices.Contains(f.aliases, k) }) {
		return "is ignored: this key holds for the whole process; set it in the common table"
	}
	text := "is not a known key and is ignored"
	best, meant := 3, ""
	for _, f := range fieldsOf(t) {
		if d := distance(k, f.name, best); d < best && d*3 < len(k)+1 {
			best, meant = d, f.name
		}
	}
	if meant != "" {
		text += fmt.Sprintf("; did you mean %q?", meant)
	}
	return text
}

// distance returns the number of edits between two words; a swap of neighbours
// is one. It gives up at limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// dotted joins canonical keys, which need no quotes.
func dotted(parts ...string) string {
	return strings.TrimPrefix(strings.Join(parts, "."), ".")
}
