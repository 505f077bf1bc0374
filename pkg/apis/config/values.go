// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"
)

// mismatchError says that a value has the wrong form altogether: the binder
// makes the message from what the type expects and what was found.
type mismatchError struct{ prefix string }

// Error returns the part of the message that stands before "expected".
func (e *mismatchError) Error() string { return e.prefix }

var errMismatch = &mismatchError{}

// decoder is a type that reads itself from a value. Its errors say what is
// wrong; the binder adds the key and the place.
type decoder interface {
	// expects completes "expected …".
	expects() string
	decode(n *node, m *Machine) error
}

// Duration is a span of time: a number of seconds or a text such as "5m".
type Duration struct{ time.Duration }

func (d *Duration) expects() string { return `a duration such as "5m" or a number of seconds` }

func (d *Duration) decode(n *node, _ *Machine) error {
	var seconds float64
	switch v := n.value.(type) {
	case int64:
		seconds = float64(v)
	case float64:
		seconds = v
	case string:
		if span, err := time.ParseDuration(v); err == nil {
			d.Duration = span
			return nil
		}
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return errMismatch
		}
		seconds = f
	default:
		return errMismatch
	}
	if math.IsNaN(seconds) || math.Abs(seconds) > math.MaxInt64/float64(2*time.Second) {
		return errors.New("out of range: at most about 146 years")
	}
	d.Duration = time.Duration(math.Round(seconds * float64(time.Second)))
	return nil
}

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// Timeout is a [Duration] that may also be "none", held as zero: no limit.
type Timeout struct{ Duration }

func (t *Timeout) expects() string { return t.Duration.expects() + `, or "none"` }

func (t *Timeout) decode(n *node, m *Machine) error {
	if s, ok := n.value.(string); ok && (s == "" || strings.EqualFold(s, "none")) {
		t.Duration = Duration{}
		return nil
	}
	return t.Duration.decode(n, m)
}

// MarshalJSON writes the text form.
func (t Timeout) MarshalJSON() ([]byte, error) {
	if t.Duration.Duration == 0 {
		return json.Marshal("none")
	}
	return t.Duration.MarshalJSON()
}

// Path is a path; absolute in a loaded Config, or empty when there is none.
type Path string

func (p *Path) expects() string { return "a path" }

func (p *Path) decode(n *node, m *Machine) error {
	s, ok := n.value.(string)
	if !ok {
		return errMismatch
	}
	if strings.ContainsRune(s, 0) {
		return errors.New("a path cannot contain a NUL character")
	}
	abs, err := resolve(s, m)
	*p = Path(abs)
	return err
}

// resolve makes a path absolute: "~" is the home directory, and anything
// relative is meant from the working directory.
func resolve(s string, m *Machine) (string, error) {
	switch {
	case s == "":
		return "", nil
	case s == "~" || strings.HasPrefix(s, "~/"):
		if m.Home == "" {
			return "", errors.New(`"~" cannot be resolved: there is no home directory; write the path in full`)
		}
		s = filepath.Join(m.Home, s[1:])
	case strings.HasPrefix(s, "~"):
		return "", fmt.Errorf(`%q: only "~" and "~/…" are understood; write the path in full`, s)
	case !filepath.IsAbs(s):
		s = filepath.Join(m.Cwd, s)
	}
	return filepath.Clean(s), nil
}

// File is the absolute path of a regular file that existed when the
// configuration was read; empty when there is none.
type File string

func (f *File) expects() string { return "the path of an existing file" }

func (f *File) decode(n *node, m *Machine) error {
	var p Path
	if err := p.decode(n, m); err != nil || p == "" {
		return err
	}
	info, err := m.Stat(string(p))
	if err != nil {
		return fmt.Errorf("expected %s: %w", f.expects(), err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("expected %s: %s is not a regular file", f.expects(), p)
	}
	*f = File(p)
	return nil
}

// Decimal is an exact decimal number, finite, as it was written.
type Decimal string

func (d *Decimal) expects() string { return `a decimal number such as 2 or "0.5"` }

func (d *Decimal) decode(n *node, _ *Machine) error {
	var text string
	switch v := n.value.(type) {
	case int64:
		text = strconv.FormatInt(v, 10)
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64)
	case string:
		text = strings.TrimSpace(v)
	default:
		return errMismatch
	}
	x, _, err := apd.NewFromString(text)
	if err != nil || x.Form != apd.Finite {
		return errMismatch
	}
	*d = Decimal(text)
	return nil
}

// negative tells that the number is below zero.
func (d Decimal) negative() bool {
	x, _, err := apd.NewFromString(string(d))
	return err == nil && x.Sign() < 0
}

// UserID is a numeric user ID.
type UserID int

func (u *UserID) expects() string { return "a user ID, a user name, or -1 for the agent's own user" }

func (u *UserID) decode(n *node, m *Machine) error {
	id, name, err := idOf(n, m.UID)
	if err == nil && name != "" {
		if id, _, err = m.LookupUser(name); err != nil {
			err = fmt.Errorf("no such user %s in system", name)
		}
	}
	*u = UserID(id)
	return err
}

// GroupID is a numeric group ID. The name of a user means that user's primary
// group.
type GroupID int

func (g *GroupID) expects() string {
	return "a group ID, a group name, or -1 for the agent's own group"
}

func (g *GroupID) decode(n *node, m *Machine) error {
	id, name, err := idOf(n, m.GID)
	if err == nil && name != "" {
		if id, err = m.LookupGroup(name); err != nil {
			if _, id, err = m.LookupUser(name); err != nil {
				err = fmt.Errorf("no such group '%s' in system", name)
			}
		}
	}
	*g = GroupID(id)
	return err
}

// idOf returns a numeric ID, or the name to look up.
func idOf(n *node, own int) (id int, name string, err error) {
	const most = 1<<32 - 2 // the last value means "unchanged" to chown
	var v int64
	switch x := n.value.(type) {
	case int64:
		v = x
	case string:
		if x == "" {
			return own, "", nil
		}
		if v, err = strconv.ParseInt(x, 10, 64); err != nil {
			return 0, x, nil
		}
	default:
		return 0, "", errMismatch
	}
	switch {
	case v == -1:
		return own, "", nil
	case v < 0 || v > most:
		return 0, "", fmt.Errorf("out of range: IDs go from 0 to %d, and -1 means the agent's own", int64(most))
	}
	return int(v), "", nil
}

// LogLevel is one of CRITICAL, ERROR, WARNING, INFO, DEBUG, TRACE, NOTSET.
type LogLevel string

// Words of [LogLevel], from the most severe to "not set".
const (
	LevelCritical LogLevel = "CRITICAL"
	LevelError    LogLevel = "ERROR"
	LevelWarning  LogLevel = "WARNING"
	LevelInfo     LogLevel = "INFO"
	LevelDebug    LogLevel = "DEBUG"
	LevelTrace    LogLevel = "TRACE"
	LevelNotSet   LogLevel = "NOTSET"
)

func (l *LogLevel) expects() string {
	return `a log level: "CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE" or "NOTSET", in either case`
}

func (l *LogLevel) decode(n *node, _ *Machine) error {
	s, ok := n.value.(string)
	if !ok {
		return errMismatch
	}
	switch v := LogLevel(strings.ToUpper(s)); v {
	case LevelCritical, LevelError, LevelWarning, LevelInfo, LevelDebug, LevelTrace, LevelNotSet:
		*l = v
		return nil
	}
	return errMismatch
}
