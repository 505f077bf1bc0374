// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"agentd/pkg/apis"
)

// ErrUsage marks an error of the command line (a configuration file named
// there that cannot be used); the command exits with status 2.
var ErrUsage = errors.New("usage error")

// KeyError says what is wrong with one key. It is of class [apis.ErrInvalid].
type KeyError struct {
	// File is the path of the configuration file.
	File string
	// Line is the line of the key in File, counted from 1; 0 when the key is
	// missing or came from the environment.
	Line int
	// Env is the environment variable that the value, or with a Line a part of
	// it, came from.
	Env string
	// Key is the dotted key as written in the file; empty for the whole file.
	Key string
	// Text says what is accepted and what was found.
	Text string
}

// Error returns "file:line: key: text".
func (e *KeyError) Error() string {
	key := e.Key
	if key != "" {
		key += ": "
	}
	switch {
	case e.Env != "" && e.Line > 0:
		return fmt.Sprintf("%s:%d with environment %s: %s%s", e.File, e.Line, e.Env, key, e.Text)
	case e.Env != "":
		return fmt.Sprintf("environment %s: %s%s", e.Env, key, e.Text)
	case e.Line > 0:
		return fmt.Sprintf("%s:%d: %s%s", e.File, e.Line, key, e.Text)
	default:
		return fmt.Sprintf("%s: %s%s", e.File, key, e.Text)
	}
}

// Is puts every KeyError into the class of invalid input.
func (e *KeyError) Is(target error) bool { return target == apis.ErrInvalid }

// joinSorted returns all errors as one, in the order of the file.
func joinSorted(list []*KeyError) error {
	slices.SortStableFunc(list, func(a, b *KeyError) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, len(list))
	for i, e := range list {
		errs[i] = e
	}
	return errors.Join(errs...)
}
