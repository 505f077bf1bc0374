// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"agentd/pkg/apis"
)

const (
	fileName   = "agent.toml"
	systemFile = "/etc/backend.ai/agent.toml"
	// buildRoot is the file that marks the top of a source checkout.
	buildRoot = "BUILD_ROOT"
)

// StatFunc is the shape of [os.Stat].
type StatFunc func(path string) (fs.FileInfo, error)

// Find returns the path of the configuration file. The first rule that applies
// decides alone; files are never merged:
//
//  1. explicit, from the command line: must be an existing regular file, else
//     the error is of class [ErrUsage];
//  2. the environment variable BACKEND_CONFIG_FILE;
//  3. the first existing of agent.toml in cwd; agent.toml in a directory above
//     cwd that lies in home and contains a file BUILD_ROOT;
//     ~/.config/backend.ai/agent.toml; /etc/backend.ai/agent.toml.
//
// When nothing is found the error lists every path tried and is of class
// [apis.ErrNotFound].
func Find(explicit string, getenv func(string) string, cwd, home string, stat StatFunc) (string, error) {
	at := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(cwd, path)
	}
	if explicit != "" {
		info, err := stat(at(explicit))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("%w: --config: file %q does not exist; name an existing agent.toml", ErrUsage, explicit)
		case err != nil:
			return "", fmt.Errorf("%w: --config: cannot use %q: %w", ErrUsage, explicit, err)
		case !info.Mode().IsRegular():
			return "", fmt.Errorf("%w: --config: %q is not a regular file; name an existing agent.toml", ErrUsage, explicit)
		}
		return at(explicit), nil
	}

	var tried []string
	if env := getenv("BACKEND_CONFIG_FILE"); env != "" {
		tried = []string{at(env)}
	} else {
		tried = searchPath(cwd, home, stat)
	}
	for _, path := range tried {
		if info, err := stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf(
		"configuration file %w: Could not read config from: %s; write one with `agentd config sample` or name one with --config",
		apis.ErrNotFound, strings.Join(tried, ","))
}

func searchPath(cwd, home string, stat StatFunc) []string {
	paths := []string{filepath.Join(cwd, fileName)}
	if home != "" {
		for dir := filepath.Dir(filepath.Clean(cwd)); within(dir, home); dir = filepath.Dir(dir) {
			if _, err := stat(filepath.Join(dir, buildRoot)); err == nil {
				paths = append(paths, filepath.Join(dir, fileName))
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
		paths = append(paths, filepath.Join(home, ".config", "backend.ai", fileName))
	}
	return append(paths, systemFile)
}

// within tells that dir is root or lies below it.
func within(dir, root string) bool {
	rel, err := filepath.Rel(root, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
