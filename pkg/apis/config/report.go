// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path/filepath"
	"strconv"
)

// Report says what reading a configuration noticed beside its values.
type Report struct {
	// Path is the configuration file.
	Path string
	// Warnings are what an operator should look at, in the order of the file.
	Warnings []Notice
	// Unused are the keys that are set, but change nothing in this version of
	// agentd, in the order of the file.
	Unused []Notice
	// Origins says for every key, in the order of the schema, where its value
	// came from.
	Origins []Origin
}

// NoticeKind classifies a [Notice].
type NoticeKind string

// The kinds of notices.
const (
	// Unknown is a key that nothing knows; it is ignored.
	Unknown NoticeKind = "unknown"
	// Deprecated is a retired name of a key; it is accepted.
	Deprecated NoticeKind = "deprecated"
	// Shadowed is a key that is ignored because another spelling of it is set.
	Shadowed NoticeKind = "shadowed"
	// Advice is about a value that is accepted, but hardly meant.
	Advice NoticeKind = "advice"
	// NotYet is a known key that this version of agentd does not use yet.
	NotYet NoticeKind = "not-yet"
	// Meaningless is a known key that has no meaning for agentd.
	Meaningless NoticeKind = "meaningless"
)

// Notice is a remark about one key.
type Notice struct {
	Kind NoticeKind `json:"kind"`
	// Key is the dotted key as written; empty for the whole file.
	Key string `json:"key"`
	// Line is the line in the file, or 0 when the key came from Env.
	Line int    `json:"line,omitempty"`
	Env  string `json:"env,omitempty"`
	Text string `json:"text"`
}

// String returns "line 12: key: text".
func (n Notice) String() string {
	text := n.Text
	if n.Key != "" {
		text = n.Key + ": " + text
	}
	switch {
	case n.Env != "":
		return "environment " + n.Env + ": " + text
	case n.Line > 0:
		return "line " + strconv.Itoa(n.Line) + ": " + text
	}
	return text
}

// Origin says where the value of a key came from: the file when Line is not 0,
// the environment when Env is not empty (both: the environment replaced a part),
// else the default.
type Origin struct {
	// Key is the dotted key in its first spelling, such as "container.port-range".
	Key  string `json:"key"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Env  string `json:"env,omitempty"`
}

// String returns "default", "agent.toml:12" or "environment NAME".
func (o Origin) String() string {
	switch {
	case o.Env != "" && o.Line > 0:
		return fmt.Sprintf("%s:%d + environment %s", filepath.Base(o.File), o.Line, o.Env)
	case o.Env != "":
		return "environment " + o.Env
	case o.Line > 0:
		return fmt.Sprintf("%s:%d", filepath.Base(o.File), o.Line)
	}
	return "default"
}

// Origin returns where the value of a dotted key came from.
func (r *Report) Origin(key string) Origin {
	for _, o := range r.Origins {
		if o.Key == key {
			return o
		}
	}
	return Origin{Key: key}
}
