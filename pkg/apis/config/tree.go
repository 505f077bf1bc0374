// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// maxFileSize bounds the configuration file, in bytes.
const maxFileSize = 1 << 20

// node is one value of the file or the environment, with the place it came from.
type node struct {
	// name is the key itself, empty for elements of lists.
	name string
	// path is the dotted key as written.
	path string
	line int
	env  string
	// value is a string, int64, float64, bool, time.Time, []*node or map[string]*node.
	value any
}

// table returns the keys of a table, or nil for any other value.
func (n *node) table() map[string]*node {
	if n == nil {
		return nil
	}
	t, ok := n.value.(map[string]*node)
	if !ok {
		return nil
	}
	return t
}

// parse reads a TOML document into a tree that knows its lines.
func parse(file, src string) (root *node, err error) {
	defer func() {
		// The parser panics on states it believes impossible; a bad file must
		// not take the daemon down.
		if r := recover(); r != nil {
			root, err = nil, &KeyError{File: file, Text: fmt.Sprintf("not readable as TOML: %v", r)}
		}
	}()
	lines, err := keyLines(src)
	if err != nil {
		if ke, ok := errors.AsType[*KeyError](err); ok {
			ke.File = file
		}
		return nil, err
	}
	var data map[string]any
	if _, err := toml.Decode(src, &data); err != nil {
		pe, ok := errors.AsType[toml.ParseError](err)
		if !ok {
			return nil, &KeyError{File: file, Text: fmt.Sprintf("not readable as TOML: %v", err)}
		}
		text := "not valid TOML: " + pe.Message
		if isSecretKey(pe.LastKey) {
			// The parser quotes what it found.
			text = "not valid TOML: the value cannot be read; write it in quotes"
		}
		return nil, &KeyError{File: file, Line: pe.Position.Line, Key: pe.LastKey, Text: text}
	}
	return grow("", data, lines), nil
}

// isSecretKey guesses from its name that a key holds a secret, for errors that
// come before the schema is known.
func isSecretKey(key string) bool {
	key = strings.ToLower(key)
	return strings.Contains(key, "password") || strings.Contains(key, "secret") || strings.Contains(key, "token")
}

func grow(path string, value any, lines map[string]int) *node {
	n := &node{path: path, line: lines[path]}
	switch v := value.(type) {
	case map[string]any:
		t := make(map[string]*node, len(v))
		for k, e := range v {
			t[k] = grow(join(path, k), e, lines)
			t[k].name = k
		}
		n.value = t
	case []map[string]any:
		list := make([]*node, len(v))
		for i, e := range v {
			list[i] = grow(element(path, i), e, lines)
		}
		n.value = list
	case []any:
		list := make([]*node, len(v))
		for i, e := range v {
			list[i] = grow(element(path, i), e, lines)
		}
		n.value = list
	default:
		n.value = v
	}
	return n
}

// plain returns the value without places, for tables that are kept as they are.
func (n *node) plain() any {
	switch v := n.value.(type) {
	case map[string]*node:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = e.plain()
		}
		return m
	case []*node:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = e.plain()
		}
		return list
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case float64:
		// JSON has no words for infinity and not-a-number.
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		return v
	}
	return n.value
}

// inOrder returns the nodes of a table in the order of the file.
func inOrder(t map[string]*node) []*node {
	list := make([]*node, 0, len(t))
	for _, n := range t {
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.path, b.path))
	})
	return list
}

// found describes a value for a person: "the integer 5", "the text "x"".
func (n *node) found() string {
	switch v := n.value.(type) {
	case string:
		if v == "" {
			return "an empty text"
		}
		return "the text " + strconv.Quote(clip(v))
	case int64:
		return "the integer " + strconv.FormatInt(v, 10)
	case float64:
		return "the number " + strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return "the boolean " + strconv.FormatBool(v)
	case time.Time:
		return "the date " + v.Format(time.RFC3339)
	case map[string]*node:
		return "a table"
	case []*node:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = e.brief()
		}
		return "the list [" + clip(strings.Join(parts, ", ")) + "]"
	}
	return "something else"
}

func (n *node) brief() string {
	switch v := n.value.(type) {
	case string:
		return strconv.Quote(v)
	case map[string]*node:
		return "{…}"
	case []*node:
		return "[…]"
	default:
		return fmt.Sprint(v)
	}
}

// kind describes a value without showing it, for secrets.
func (n *node) kind() string {
	switch n.value.(type) {
	case string:
		return "a text"
	case int64, float64:
		return "a number"
	case bool:
		return "a boolean"
	case map[string]*node:
		return "a table"
	case []*node:
		return "a list"
	}
	return "something else"
}

func clip(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
