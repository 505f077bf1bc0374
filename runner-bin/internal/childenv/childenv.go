// SPDX-License-Identifier: Apache-2.0

// Package childenv builds the environment that everything the user starts in a kernel gets: commands, login shells and
// batch jobs alike.
package childenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"agentd/runner-bin/internal/layout"
)

// Env is an environment in a stable order, one value a name.
type Env struct {
	names  []string
	values map[string]string
}

// FromList reads NAME=value entries; the last one of a name wins, as it does for getenv after a shell.
func FromList(list []string) *Env {
	e := &Env{values: make(map[string]string, len(list))}
	for _, entry := range list {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			e.Set(name, value)
		}
	}
	return e
}

// Get returns a value, empty when there is none.
func (e *Env) Get(name string) string { return e.values[name] }

// Set gives a name a value.
func (e *Env) Set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

// Default gives a name a value unless it has one.
func (e *Env) Default(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.Set(name, value)
	}
}

// List returns NAME=value entries, as execve takes them.
func (e *Env) List() []string {
	list := make([]string, 0, len(e.names))
	for _, name := range e.names {
		list = append(list, name+"="+e.values[name])
	}
	return list
}

// Build returns the child environment: the runner's own, overlaid by the defaults of every kernel, overlaid by what the
// agent wrote, with the directories of tools put in front of PATH. An unreadable file is an error beside a usable
// environment.
func Build(l layout.Layout, own []string) (*Env, error) {
	env := FromList(own)
	env.Set("LANG", "C.UTF-8")
	env.Set("HOME", layout.Work)
	env.Set("TERM", "xterm")
	err := overlay(env, l)
	if shell := l.Shell(); shell != "" {
		env.Default("SHELL", shell)
	}
	env.Default("PATH", layout.DefaultPath)
	env.Set("PATH", frontPath(l, env.Get("PATH")))
	return env, err
}

// overlay applies what the agent wrote. The JSON form alone can carry line breaks, so it replaces the text form.
func overlay(env *Env, l layout.Layout) error {
	data, err := os.ReadFile(l.At(layout.EnvironJSON))
	if err == nil {
		var entries map[string]string
		if err = json.Unmarshal(data, &entries); err == nil {
			return applyJSON(env, entries)
		}
		err = fmt.Errorf("%s is damaged: %w", layout.EnvironJSON, err)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	text, textErr := os.ReadFile(l.At(layout.EnvironText))
	if errors.Is(textErr, fs.ErrNotExist) {
		textErr = nil
	}
	for name, value := range ParseText(string(text)) {
		env.Set(name, value)
	}
	return errors.Join(err, textErr)
}

func applyJSON(env *Env, entries map[string]string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if value := entries[name]; name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			errs = append(errs, fmt.Errorf("%s: %q cannot be a variable", layout.EnvironJSON, name))
			continue
		}
		env.Set(name, entries[name])
	}
	return errors.Join(errs...)
}

// ParseText yields the entries of environ.txt: KEY=VALUE lines, split at the first equals sign, without any quoting.
// Lines without one are skipped, and so is what execve could not take.
func ParseText(text string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for line := range strings.SplitSeq(text, "\n") {
			name, value, ok := strings.Cut(line, "=")
			if !ok || name == "" || strings.Contains(line, "\x00") {
				continue
			}
			if !yield(name, value) {
				return
			}
		}
	}
}

// frontPath moves the directories of tools to the front, the last one of the list becoming the first of PATH. The
// user's own directory is there even before it exists; people install into it later.
func frontPath(l layout.Layout, value string) string {
	dirs := strings.Split(value, ":")
	front := func(dir string) {
		dirs = slices.DeleteFunc(dirs, func(d string) bool { return d == dir })
		dirs = slices.Insert(dirs, 0, dir)
	}
	for _, dir := range []string{"/usr/local/cuda/bin", "/usr/local/nvidia/bin", "/home/linuxbrew/.linuxbrew/bin"} {
		probe := dir
		if strings.HasPrefix(dir, "/home/linuxbrew/") {
			probe = path.Dir(dir)
		}
		if info, err := os.Stat(l.At(probe)); err == nil && info.IsDir() {
			front(dir)
		}
	}
	front(layout.Work + "/.local/bin")
	return strings.Join(dirs, ":")
}
