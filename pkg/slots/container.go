// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"strings"
)

// Container is what an allocation of cpu and mem means for a container.
type Container struct {
	// CpusetCpus are the core numbers in ascending order, comma separated.
	CpusetCpus string
	// Cores counts different cores; with overcommit it can be less than the amount.
	Cores int
	// MemoryBytes bounds memory, and memory and swap together.
	MemoryBytes int64
}

// ContainerOf derives a container's limits from what it holds; fractions of a
// byte are dropped.
func ContainerOf(a Allocation) Container {
	cores := a.IDs(CPU)
	return Container{
		CpusetCpus:  strings.Join(cores, ","),
		Cores:       len(cores),
		MemoryBytes: a.Total()[Memory].Int64Clamped(),
	}
}

// AttachedDevice is one entry of attached_devices in the create_kernels result (26.8).
type AttachedDevice struct {
	DeviceID  string `json:"device_id"`
	ModelName string `json:"model_name"`
	// Data is {cores} for a core and empty for memory.
	Data map[string]int64 `json:"data"`
}

// Attached lists the devices that a kernel holds, by device name, in the order
// in which the node declares them.
func (l *Ledger) Attached(a Allocation) map[string][]AttachedDevice {
	attached := map[string][]AttachedDevice{}
	for name, bySlot := range a {
		list := []AttachedDevice{}
		for _, d := range l.Devices(name) {
			if bySlot[d.Slot][d.ID].Sign() <= 0 {
				continue
			}
			data := map[string]int64{}
			if name == CPU {
				data["cores"] = int64(len(a.IDs(CPU)))
			}
			list = append(list, AttachedDevice{DeviceID: d.ID, ModelName: d.Model, Data: data})
		}
		attached[name] = list
	}
	return attached
}
