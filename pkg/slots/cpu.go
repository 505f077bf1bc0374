// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// ErrDetect says that the node does not tell what it has.
var ErrDetect = errors.New("cannot be detected")

// maxCores bounds core numbers read from files.
const maxCores = 1 << 16

// MaxOvercommit is the largest overcommit factor for cores. The reference stops
// at 10; nothing in the manager needs that.
const MaxOvercommit = 100

// Detection says what detection cannot read off the root file system.
type Detection struct {
	// Driver is the engine's cgroup driver; empty if unknown.
	Driver CgroupDriver
	// CPUOvercommit and MemoryOvercommit multiply what is found
	// (BACKEND_CPU_OVERCOMMIT_FACTOR, BACKEND_MEM_OVERCOMMIT_FACTOR); 0 means 1.
	CPUOvercommit    int
	MemoryOvercommit int
}

// DetectCores returns one device for each core that containers may use, in
// numerical order; its ID is the core's number. root stands for the root
// directory.
//
// Sources, the first that answers: the cpuset of containers, this process's
// affinity, the cores that are online, those that /proc/cpuinfo lists.
func DetectCores(root fs.FS, how Detection) ([]Device, error) {
	factor := max(how.CPUOvercommit, 1)
	if how.CPUOvercommit < 0 || factor > MaxOvercommit {
		return nil, fmt.Errorf("overcommit factor for cores %d: must be 1 to %d: %w", how.CPUOvercommit, MaxOvercommit, ErrReservation)
	}
	cores, err := usableCores(root, how.Driver)
	if err != nil {
		return nil, err
	}
	nodes := numaNodes(root)
	devices := make([]Device, len(cores))
	for i, core := range cores {
		node, known := nodes[core]
		if !known {
			node = 0 // a machine without NUMA has one node
		}
		devices[i] = Device{
			Name: CPU, ID: strconv.Itoa(core), Slot: CPU, Type: Count,
			Capacity: Int(int64(factor)), NUMANode: node,
		}
	}
	return devices, nil
}

func usableCores(root fs.FS, driver CgroupDriver) ([]int, error) {
	dirs, version := cgroupDirs(root, "cpuset", driver)
	file := "cpuset.cpus.effective"
	if version == 1 {
		file = "cpuset.effective_cpus"
	}
	sources := make([]func() (string, error), 0, len(dirs)+3)
	for _, dir := range dirs {
		sources = append(sources, func() (string, error) { return readText(root, path.Join(dir, file)) })
	}
	sources = append(sources,
		func() (string, error) { return fieldOf(root, "proc/self/status", "Cpus_allowed_list") },
		func() (string, error) { return readText(root, "sys/devices/system/cpu/online") },
		func() (string, error) { return processors(root) },
	)
	var errs []error
	for _, source := range sources {
		text, err := source()
		if err == nil {
			var cores []int
			if cores, err = parseCoreList(text); err == nil {
				return cores, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("cores: %w: %w", ErrDetect, errors.Join(errs...))
}

// parseCoreList reads "0-3,8": numbers and ranges. The result is sorted and
// has every core once.
func parseCoreList(text string) ([]int, error) {
	var cores []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("core list %q: %w", text, err)
		}
		to, err := strconv.ParseUint(last, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("core list %q: %w", text, err)
		}
		if to < from || to >= maxCores {
			return nil, fmt.Errorf("core list %q: range %s: %w", text, part, ErrDetect)
		}
		for core := from; core <= to; core++ {
			cores = append(cores, int(core))
		}
	}
	slices.Sort(cores)
	return slices.Compact(cores), nil
}

// fieldOf returns what follows "NAME:" in a file of such lines.
func fieldOf(root fs.FS, file, name string) (string, error) {
	data, err := fs.ReadFile(root, file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("%s: no line %s: %w", file, name, fs.ErrNotExist)
}

// processors lists the processors of /proc/cpuinfo as a core list.
func processors(root fs.FS) (string, error) {
	data, err := fs.ReadFile(root, "proc/cpuinfo")
	if err != nil {
		return "", err
	}
	var numbers []string
	for line := range strings.Lines(string(data)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "processor" {
			numbers = append(numbers, strings.TrimSpace(value))
		}
	}
	return strings.Join(numbers, ","), nil
}

// numaNodes returns the memory node of each core.
func numaNodes(root fs.FS) map[int]int {
	nodes := map[int]int{}
	dirs, err := fs.Glob(root, "sys/devices/system/node/node[0-9]*")
	if err != nil {
		return nodes
	}
	for _, dir := range dirs {
		node, err := strconv.Atoi(strings.TrimPrefix(path.Base(dir), "node"))
		if err != nil {
			continue
		}
		text, err := readText(root, path.Join(dir, "cpulist"))
		if err != nil {
			continue
		}
		cores, err := parseCoreList(text)
		if err != nil {
			continue // a node without cores has an empty list
		}
		for _, core := range cores {
			nodes[core] = node
		}
	}
	return nodes
}
