// SPDX-License-Identifier: Apache-2.0

// Package layout names the places inside a kernel container that bai-runner reads and writes, so that every other
// package can be pointed at a scratch directory by its tests.
package layout

import (
	"os"
	"path/filepath"
	"strings"
)

// Paths inside a kernel container. They are a contract with the agent and with images, not a choice.
const (
	Config         = "/home/config"
	Work           = "/home/work"
	KernelDir      = "/opt/kernel"
	RunnerBinary   = "/opt/kernel/bai-runner"
	RunSocket      = "/opt/kernel/run/runner.sock"
	ImageBootstrap = "/opt/container/bootstrap.sh"
	UserBootstrap  = "/home/work/bootstrap.sh"
	EnvironText    = "/home/config/environ.txt"
	EnvironJSON    = "/home/config/environ.json"
	IntrinsicPorts = "/home/config/intrinsic-ports.json"
	Dotfiles       = "/home/config/dotfiles.json"
	Sudoers        = "/home/config/sudoers"
	HostKey        = "/home/config/ssh/ssh_host_rsa_key"
	ClusterKey     = "/home/config/ssh/id_cluster"
	ClusterPub     = "/home/config/ssh/id_cluster.pub"
	PortMapping    = "/home/config/ssh/port-mapping.json"
	UserSSH        = "/home/work/.ssh"
	ContainerKey   = "/home/work/id_container"
	SudoersDropIn  = "/etc/sudoers.d/01-bai-work"
)

// SSHPort is the TCP port on which every kernel serves SSH unless its intrinsic-ports.json says otherwise.
const SSHPort = 2200

// DefaultPath is the PATH of processes whose image sets none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Layout maps a path of the container to the path to open. The zero value maps every path to itself.
type Layout struct {
	// Root is put in front of every path; empty means the real root.
	Root string
}

// At returns where the container path lies.
func (l Layout) At(path string) string {
	if l.Root == "" {
		return path
	}
	return filepath.Join(l.Root, path)
}

// Shell returns the container path of the shell that people get: the first existing one of bash, ash and sh. It is
// empty when the image has none.
func (l Layout) Shell() string {
	for _, shell := range []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/ash", "/bin/sh", "/usr/bin/sh"} {
		if Executable(l.At(shell)) {
			return shell
		}
	}
	return ""
}

// Sh returns the container path of the POSIX shell that runs scripts, empty when the image has none.
func (l Layout) Sh() string {
	for _, shell := range []string{"/bin/sh", "/usr/bin/sh", "/bin/ash", "/bin/bash"} {
		if Executable(l.At(shell)) {
			return shell
		}
	}
	return ""
}

// FindProgram looks a program name up in the directories of a PATH value and returns its container path. A name with
// a slash is looked up as it is. It returns false when there is none.
func (l Layout) FindProgram(name, path string) (string, bool) {
	if strings.Contains(name, "/") {
		return name, Executable(l.At(name))
	}
	if name == "" {
		return "", false
	}
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			continue // an empty item means the current directory, which nobody wants here
		}
		if candidate := filepath.Join(dir, name); Executable(l.At(candidate)) {
			return candidate, true
		}
	}
	return "", false
}

// Executable reports whether the path leads to a regular file with an execute bit.
func Executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
