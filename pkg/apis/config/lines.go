// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strconv"
	"strings"
)

// maxNesting bounds arrays in arrays and tables in tables: the TOML parser
// recurses, and a stack overflow cannot be recovered from.
const maxNesting = 64

var errNesting = errors.New("nested too deeply")

// keyLines returns the line on which each key and table of a TOML document is
// first written, by dotted path with array indices ("agents[0].agent.id"). It
// judges nothing but nesting: where the document is not TOML it stops, and the
// parser says why.
func keyLines(src string) (map[string]int, error) {
	s := &lineScanner{
		src:    strings.TrimPrefix(src, "\xef\xbb\xbf"),
		line:   1,
		lines:  map[string]int{},
		counts: map[string]int{},
	}
	s.document()
	if s.tooDeep {
		return nil, &KeyError{Line: s.line, Text: errNesting.Error() + ": more than " + strconv.Itoa(maxNesting) + " levels"}
	}
	return s.lines, nil
}

type lineScanner struct {
	src     string
	pos     int
	line    int
	lines   map[string]int
	counts  map[string]int // elements seen of each array of tables
	tooDeep bool
}

func (s *lineScanner) document() {
	table := ""
	for {
		s.blank(true)
		if s.pos >= len(s.src) {
			return
		}
		ok := false
		if s.src[s.pos] == '[' {
			table, ok = s.header()
		} else {
			ok = s.keyValue(table, 0)
		}
		if !ok {
			return
		}
	}
}

// header reads "[a.b]" or "[[a.b]]" and returns the path of the table.
func (s *lineScanner) header() (string, bool) {
	s.pos++
	isArray := s.accept('[')
	line := s.line
	keys, ok := s.key()
	if !ok || !s.accept(']') || (isArray && !s.accept(']')) {
		return "", false
	}
	path := ""
	for i, k := range keys {
		path = join(path, k)
		s.note(path, line)
		n, seen := s.counts[path]
		if isArray && i == len(keys)-1 {
			n, seen = n+1, true
			s.counts[path] = n
		}
		if seen {
			path = element(path, n-1)
			s.note(path, line)
		}
	}
	return path, true
}

func (s *lineScanner) keyValue(table string, depth int) bool {
	line := s.line
	keys, ok := s.key()
	if !ok || !s.accept('=') {
		return false
	}
	path := table
	for _, k := range keys {
		path = join(path, k)
		s.note(path, line)
	}
	s.blank(false)
	return s.value(path, depth)
}

// key reads a dotted key.
func (s *lineScanner) key() ([]string, bool) {
	var keys []string
	for {
		s.blank(false)
		start := s.pos
		switch {
		case s.pos >= len(s.src):
			return nil, false
		case s.src[s.pos] == '"', s.src[s.pos] == '\'':
			quote := s.src[s.pos]
			if !s.text() {
				return nil, false
			}
			raw := s.src[start:s.pos]
			k := raw[1 : len(raw)-1]
			if unquoted, err := strconv.Unquote(raw); quote == '"' && err == nil {
				k = unquoted
			}
			keys = append(keys, k)
		default:
			for s.pos < len(s.src) && isBare(s.src[s.pos]) {
				s.pos++
			}
			if s.pos == start {
				return nil, false
			}
			keys = append(keys, s.src[start:s.pos])
		}
		if len(keys) > maxNesting {
			s.tooDeep = true
			return nil, false
		}
		s.blank(false)
		if !s.accept('.') {
			return keys, true
		}
	}
}

func (s *lineScanner) value(path string, depth int) bool {
	if depth > maxNesting {
		s.tooDeep = true
		return false
	}
	if s.pos >= len(s.src) {
		return false
	}
	switch s.src[s.pos] {
	case '"', '\'':
		return s.text()
	case '[':
		s.pos++
		for i := 0; ; i++ {
			s.blank(true)
			if s.accept(']') {
				return true
			}
			s.note(element(path, i), s.line)
			if !s.value(element(path, i), depth+1) {
				return false
			}
			s.blank(true)
			if !s.accept(',') {
				return s.accept(']')
			}
		}
	case '{':
		s.pos++
		for {
			s.blank(true)
			if s.accept('}') {
				return true
			}
			if !s.keyValue(path, depth+1) {
				return false
			}
			s.blank(true)
			if !s.accept(',') {
				return s.accept('}')
			}
		}
	}
	start := s.pos
	for s.pos < len(s.src) && !strings.ContainsRune(",]}#\r\n", rune(s.src[s.pos])) {
		s.pos++
	}
	return s.pos > start
}

// text skips one string of any of the four kinds.
func (s *lineScanner) text() bool {
	quote := s.src[s.pos : s.pos+1]
	multi := strings.HasPrefix(s.src[s.pos:], strings.Repeat(quote, 3))
	end := quote
	if multi {
		end = strings.Repeat(quote, 3)
	}
	s.pos += len(end)
	for s.pos < len(s.src) {
		switch {
		case strings.HasPrefix(s.src[s.pos:], end):
			s.pos += len(end)
			// Up to two quotes may stand before the closing three.
			for i := 0; multi && i < 2 && strings.HasPrefix(s.src[s.pos:], quote); i++ {
				s.pos++
			}
			return true
		case s.src[s.pos] == '\\' && quote == `"` && s.pos+1 < len(s.src) && s.src[s.pos+1] != '\n':
			s.pos += 2
		case s.src[s.pos] == '\n':
			if !multi {
				return false
			}
			s.line++
			s.pos++
		default:
			s.pos++
		}
	}
	return false
}

// blank skips spaces, and with lines also line ends and comments.
func (s *lineScanner) blank(lines bool) {
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case c == ' ' || c == '\t' || c == '\r':
		case lines && c == '\n':
			s.line++
		case lines && c == '#':
			for s.pos < len(s.src) && s.src[s.pos] != '\n' {
				s.pos++
			}
			continue
		default:
			return
		}
		s.pos++
	}
}

func (s *lineScanner) accept(c byte) bool {
	if s.pos < len(s.src) && s.src[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

func (s *lineScanner) note(path string, line int) {
	if _, ok := s.lines[path]; !ok {
		s.lines[path] = line
	}
}

func isBare(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// join appends a key to a dotted path, quoting it where TOML would.
func join(path, key string) string {
	for i := range len(key) {
		if !isBare(key[i]) {
			key = strconv.Quote(key)
			break
		}
	}
	if key == "" {
		key = `""`
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
