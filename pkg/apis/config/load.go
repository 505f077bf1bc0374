// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
)

// Load reads the file at path on this machine, puts the environment over it
// and checks the result. The Report is returned also with an error, as far as
// reading came. All errors are found before returning; they are [KeyError]
// values joined in the order of the file.
func Load(path string, env func(string) string) (*Config, *Report, error) {
	m, err := System(env)
	if err != nil {
		return nil, &Report{Path: path}, err
	}
	return m.Load(path)
}

// Load is the function [Load] on any machine.
func (m *Machine) Load(path string) (*Config, *Report, error) {
	report := &Report{Path: path}
	info, err := m.Stat(path)
	switch {
	case err != nil:
		return nil, report, fmt.Errorf("configuration file: %w", err)
	case !info.Mode().IsRegular():
		return nil, report, &KeyError{File: path, Text: "not a regular file; name an agent.toml"}
	case info.Size() > maxFileSize:
		return nil, report, &KeyError{File: path, Text: fmt.Sprintf("%d bytes is too large for a configuration; at most %d are read", info.Size(), maxFileSize)}
	}
	src, err := m.ReadFile(path)
	if err != nil {
		return nil, report, fmt.Errorf("configuration file: %w", err)
	}
	if info.Mode().Perm()&0o002 != 0 {
		report.Warnings = append(report.Warnings, Notice{
			Kind: Advice,
			Text: fmt.Sprintf("every user of this machine can change %s, and so what the agent does; run chmod o-w on it", path),
		})
	}
	return m.load(path, string(src), report)
}

func (m *Machine) load(path, src string, report *Report) (*Config, *Report, error) {
	if len(src) > maxFileSize {
		return nil, report, &KeyError{File: path, Text: fmt.Sprintf("too large for a configuration; at most %d bytes are read", maxFileSize)}
	}
	root, err := parse(path, src)
	if err != nil {
		return nil, report, err
	}
	applyEnv(root, m.Env)
	c := defaults(m)
	b := &binder{file: path, m: m, root: c, report: report}
	b.table(reflect.ValueOf(c).Elem(), root, "", false)
	c.settle()
	b.validate(root)
	for _, list := range [][]Notice{report.Warnings, report.Unused} {
		slices.SortStableFunc(list, func(x, y Notice) int { return cmp.Compare(x.Line, y.Line) })
	}
	if len(b.errs) > 0 {
		return nil, report, joinSorted(b.errs)
	}
	return c, report, nil
}

// settle fills in the paths whose default follows another key.
func (c *Config) settle() {
	if c.Agentd.StateDir == "" {
		c.Agentd.StateDir = c.Agent.VarBasePath
	}
	if c.Agentd.AdminSocket == "" {
		c.Agentd.AdminSocket = Path(filepath.Join(string(c.Agentd.StateDir), "agentd.sock"))
	}
}
