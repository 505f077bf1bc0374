// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// MemoryDevice is the ID of the one memory device.
const MemoryDevice = "root"

// DetectMemory returns the node's memory as one device: what /proc/meminfo
// has, or less if control groups limit what all containers together can use.
// root stands for the root directory. Swap does not count.
func DetectMemory(root fs.FS, how Detection) (Device, error) {
	total, err := memTotal(root)
	if err != nil {
		return Device{}, fmt.Errorf("memory: %w: %w", ErrDetect, err)
	}
	if limit, limited := memoryLimit(root, how.Driver); limited {
		total = min(total, limit)
	}
	factor := int64(max(how.MemoryOvercommit, 1))
	if total > math.MaxInt64/factor {
		return Device{}, fmt.Errorf("overcommit factor for memory %d: too large: %w", factor, ErrReservation)
	}
	return Device{
		Name: Memory, ID: MemoryDevice, Slot: Memory, Type: Bytes,
		Capacity: Int(total * factor),
	}, nil
}

// memTotal returns MemTotal in bytes.
func memTotal(root fs.FS) (int64, error) {
	text, err := fieldOf(root, "proc/meminfo", "MemTotal")
	if err != nil {
		return 0, err
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("MemTotal %q: %w", text, err)
	}
	if kib <= 0 || kib > math.MaxInt64>>10 {
		return 0, fmt.Errorf("MemTotal %q: out of range: %w", text, ErrDetect)
	}
	return kib << 10, nil
}

// memoryLimit returns the tightest limit that holds for all containers.
func memoryLimit(root fs.FS, driver CgroupDriver) (limit int64, limited bool) {
	dirs, version := cgroupDirs(root, "memory", driver)
	file := "memory.max"
	if version == 1 {
		file = "memory.limit_in_bytes"
	}
	for _, dir := range dirs {
		text, err := readText(root, path.Join(dir, file))
		if err != nil {
			continue // the root group has no limit file
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n <= 0 {
			continue // "max"
		}
		if !limited || n < limit {
			limit, limited = n, true
		}
	}
	return limit, limited
}
