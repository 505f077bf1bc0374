// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"runtime"
	"strconv"
)

// Machine is what reading a configuration asks of the machine it runs on.
// Nothing in it changes anything.
type Machine struct {
	// Env returns an environment variable; empty counts as unset.
	Env func(name string) string
	// ReadFile and Stat are those of package os.
	ReadFile func(path string) ([]byte, error)
	Stat     StatFunc
	// LookupUser and LookupGroup resolve names to numeric IDs.
	LookupUser  func(name string) (uid, gid int, err error)
	LookupGroup func(name string) (gid int, err error)
	// Cwd and Home resolve relative paths and "~".
	Cwd, Home string
	// UID and GID are those of this process.
	UID, GID int
	// OS and Arch are [runtime.GOOS] and [runtime.GOARCH].
	OS, Arch string
}

// System returns the machine that this process runs on.
func System(env func(string) string) (*Machine, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("working directory: %w; start agentd in an existing directory", err)
	}
	// Without a home directory "~" is refused where it is used.
	home, _ := os.UserHomeDir()
	return &Machine{
		Env:         env,
		ReadFile:    os.ReadFile,
		Stat:        func(path string) (fs.FileInfo, error) { return os.Stat(path) },
		LookupUser:  lookupUser,
		LookupGroup: lookupGroup,
		Cwd:         cwd,
		Home:        home,
		UID:         os.Getuid(),
		GID:         os.Getgid(),
		OS:          runtime.GOOS,
		Arch:        runtime.GOARCH,
	}, nil
}

func lookupUser(name string) (uid, gid int, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, fmt.Errorf("user %q: %w", name, err)
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, fmt.Errorf("user %q: %w", name, err)
	}
	if gid, err = strconv.Atoi(u.Gid); err != nil {
		return 0, 0, fmt.Errorf("user %q: %w", name, err)
	}
	return uid, gid, nil
}

func lookupGroup(name string) (gid int, err error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("group %q: %w", name, err)
	}
	if gid, err = strconv.Atoi(g.Gid); err != nil {
		return 0, fmt.Errorf("group %q: %w", name, err)
	}
	return gid, nil
}
