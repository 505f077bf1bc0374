// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// CgroupDriver is how the container engine names its control groups
// (CgroupDriver of the engine's info).
type CgroupDriver string

// The drivers whose groups can be found.
const (
	Cgroupfs CgroupDriver = "cgroupfs"
	Systemd  CgroupDriver = "systemd"
)

// group returns the group below which the engine makes those of containers.
func (d CgroupDriver) group() string {
	switch d {
	case Cgroupfs:
		return "docker"
	case Systemd:
		return "system.slice"
	default:
		return ""
	}
}

// cgroupDirs returns the directories whose limits hold for every container:
// that of all containers, then the root of the hierarchy as this process sees
// it (inside a container, that one's limits are there). agentd's own group is
// not among them: containers are not in it. version is 1 or 2, or 0 if the
// controller is not mounted.
func cgroupDirs(root fs.FS, controller string, driver CgroupDriver) (dirs []string, version int) {
	mounts, err := fs.ReadFile(root, "proc/mounts")
	if err != nil {
		return nil, 0
	}
	mountpoint := ""
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		switch {
		case fields[2] == "cgroup" && slices.Contains(strings.Split(fields[3], ","), controller):
			mountpoint, version = fields[1], 1
		case fields[2] == "cgroup2" && version == 0:
			mountpoint, version = fields[1], 2
		}
	}
	base := inside(mountpoint)
	if base == "" {
		return nil, 0
	}
	if group := driver.group(); group != "" {
		dirs = append(dirs, path.Join(base, group))
	}
	return append(dirs, base), version
}

// inside turns an absolute path into one of an fs.FS that stands for the root
// directory; empty if that cannot be.
func inside(absolute string) string {
	p := path.Clean(strings.TrimPrefix(unescapeMount(absolute), "/"))
	if p == "." || !fs.ValidPath(p) {
		return ""
	}
	return p
}

// unescapeMount undoes the escapes of /proc/mounts.
func unescapeMount(p string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(p)
}

// readText returns a file's text without blanks around it.
func readText(root fs.FS, name string) (string, error) {
	data, err := fs.ReadFile(root, name)
	return strings.TrimSpace(string(data)), err
}
