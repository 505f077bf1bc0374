// SPDX-License-Identifier: Apache-2.0

package sshclient

import (
	"os"
	"path/filepath"
	"strings"
)

// maxIncludes bounds how deep configuration files include each other.
const maxIncludes = 8

// settings are the values that hold for one host: the first value of a name wins, key files add up.
type settings struct {
	values     map[string]string
	identities []string
	sendEnv    []string
	setEnv     []string
}

// add takes a value unless there is one.
func (s *settings) add(name, value string) {
	name = strings.ToLower(name)
	switch name {
	case "identityfile":
		s.identities = append(s.identities, value)
		return
	case "sendenv":
		s.sendEnv = append(s.sendEnv, strings.Fields(value)...)
		return
	case "setenv":
		s.setEnv = append(s.setEnv, value)
		return
	}
	if s.values == nil {
		s.values = map[string]string{}
	}
	if _, ok := s.values[name]; !ok {
		s.values[name] = value
	}
}

func (s *settings) get(name string) string { return s.values[strings.ToLower(name)] }

// is reports whether a value is one of the words, in any case.
func (s *settings) is(name string, words ...string) bool {
	value := s.get(name)
	for _, word := range words {
		if strings.EqualFold(value, word) {
			return true
		}
	}
	return false
}

// configReader reads configuration files for one host.
type configReader struct {
	host string
	home string
	into *settings
}

// file adds what a file says about the host. A missing file says nothing.
func (r configReader) file(path string, depth int) {
	data, err := os.ReadFile(path)
	if err != nil {
		return
	}
	active := true
	for line := range strings.Lines(string(data)) {
		name, value := splitSetting(line)
		switch strings.ToLower(name) {
		case "":
		case "host":
			active = matchHost(r.host, strings.Fields(value))
		case "match":
			active = strings.EqualFold(strings.TrimSpace(value), "all")
		case "include":
			if active && depth < maxIncludes {
				r.include(filepath.Dir(path), value, depth)
			}
		default:
			if active {
				r.into.add(name, value)
			}
		}
	}
}

func (r configReader) include(dir, value string, depth int) {
	for pattern := range strings.FieldsSeq(value) {
		pattern = expandHome(pattern, r.home)
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(dir, pattern)
		}
		paths, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		for _, path := range paths {
			r.file(path, depth+1)
		}
	}
}

// splitSetting splits `Name value`, `Name=value` and `Name = "value"`; comments and empty lines have no name.
func splitSetting(line string) (name, value string) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", ""
	}
	end := strings.IndexAny(line, " \t=")
	if end < 0 {
		return line, ""
	}
	name, value = line[:end], strings.TrimSpace(line[end:])
	value = strings.TrimSpace(strings.TrimPrefix(value, "="))
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	return name, value
}

// matchHost applies the patterns of a Host line: one must match, and none that is negated.
func matchHost(host string, patterns []string) bool {
	matched := false
	for _, pattern := range patterns {
		for part := range strings.SplitSeq(pattern, ",") {
			negated := strings.HasPrefix(part, "!")
			if !Wildcard(strings.TrimPrefix(part, "!"), host) {
				continue
			}
			if negated {
				return false
			}
			matched = true
		}
	}
	return matched
}

// Wildcard matches text against a pattern in which * stands for any text and ? for one byte.
func Wildcard(pattern, text string) bool {
	star, mark := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

func expandHome(path, home string) string {
	if path == "~" {
		return home
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(home, rest)
	}
	return path
}
