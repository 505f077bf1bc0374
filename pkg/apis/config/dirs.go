// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Directory is one directory that the daemon needs.
type Directory struct {
	// Key is the dotted key that names it.
	Key  string
	Path string
	// Mode is given to it when it is made; parents made with it get 0755.
	Mode fs.FileMode
}

// scratchRootMode lets others pass, as the engine's processes must, but not
// list which kernels there are.
const scratchRootMode = 0o711

// Directories returns the directories that must exist when the daemon runs.
// Those of features that are turned off are not among them.
func (c *Config) Directories() []Directory {
	// The agent's own state comes first: where it shares a directory with
	// others, its narrow mode counts.
	list := []Directory{
		{Key: "agentd.state-dir", Path: string(c.Agentd.StateDir), Mode: 0o700},
		{Key: "agentd.admin-socket", Path: filepath.Dir(string(c.Agentd.AdminSocket)), Mode: 0o700},
		{Key: "agent.ipc-base-path", Path: string(c.Agent.IPCBasePath), Mode: 0o755},
		{Key: "agent.var-base-path", Path: string(c.Agent.VarBasePath), Mode: 0o755},
		{Key: "agent.image-commit-path", Path: string(c.Agent.ImageCommitPath), Mode: 0o755},
		{Key: "agent.mount-path", Path: string(c.Agent.MountPath), Mode: 0o755},
		{Key: "container.scratch-root", Path: string(c.Container.ScratchRoot), Mode: scratchRootMode},
	}
	for i := range c.Agents {
		list = append(list, Directory{
			Key: element("agents", i) + ".container.scratch-root", Path: string(c.Agents[i].Container.ScratchRoot), Mode: scratchRootMode,
		})
	}
	if c.Logging.File != nil {
		list = append(list, Directory{Key: "logging.file.path", Path: string(c.Logging.File.Path), Mode: 0o755})
	}
	if c.Debug.Coredump.Enabled {
		list = append(list, Directory{Key: "debug.coredump.path", Path: string(c.Debug.Coredump.Path), Mode: 0o755})
	}
	seen := map[string]bool{"": true}
	out := list[:0]
	for _, d := range list {
		if !seen[d.Path] {
			seen[d.Path] = true
			out = append(out, d)
		}
	}
	return out
}

// CreateDirs makes the directories that are missing, with their parents. It
// tries all of them and returns every failure.
func (c *Config) CreateDirs() error {
	var errs []error
	for _, d := range c.Directories() {
		err := os.MkdirAll(filepath.Dir(d.Path), 0o755)
		if err == nil {
			err = os.MkdirAll(d.Path, d.Mode)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: cannot make the directory %s: %w; make it by hand or choose another", d.Key, d.Path, err))
		}
	}
	return errors.Join(errs...)
}
