// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"errors"
	"maps"
	"os"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// machine is a root directory of the given files.
func machine(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, content := range files {
		root[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return root
}

const (
	mountsV1 = `proc /proc proc rw 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,nosuid,cpuset 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,nosuid,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
`
	mountsV2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"
)

// base is a machine with two memory nodes and four cores, of which core 2 is offline.
func base() map[string]string {
	return map[string]string{
		"proc/cpuinfo":                          "processor\t: 0\n\nprocessor\t: 1\n\nprocessor\t: 3\n\nprocessor : 4\n",
		"proc/meminfo":                          "MemTotal:       16384 kB\nMemFree: 1 kB\n",
		"sys/devices/system/cpu/online":         "0-1,3-4\n",
		"sys/devices/system/node/node0/cpulist": "0-1\n",
		"sys/devices/system/node/node1/cpulist": "3-4\n",
		"sys/devices/system/node/node2/cpulist": "\n",
		"proc/mounts":                           "proc /proc proc rw 0 0\n",
	}
}

func with(files map[string]string, more map[string]string) map[string]string {
	maps.Copy(files, more)
	return files
}

func TestDetectCores(t *testing.T) {
	for _, c := range []struct {
		name   string
		files  map[string]string
		driver CgroupDriver
		want   map[string]int // memory node by core
	}{
		{"online", base(), "", map[string]int{"0": 0, "1": 0, "3": 1, "4": 1}},
		{"affinity", with(base(), map[string]string{"proc/self/status": "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"}), "", map[string]int{"0": 0, "1": 0}},
		{"cpuinfo", map[string]string{"proc/cpuinfo": "processor\t: 0\nprocessor\t: 1\n"}, "", map[string]int{"0": 0, "1": 0}},
		{"v1", with(base(), map[string]string{"proc/mounts": mountsV1, "sys/fs/cgroup/cpuset/docker/cpuset.effective_cpus": "1,3\n"}), Cgroupfs, map[string]int{"1": 0, "3": 1}},
		{"v1 not yet made", with(base(), map[string]string{"proc/mounts": mountsV1, "sys/fs/cgroup/cpuset/cpuset.effective_cpus": "3\n"}), Cgroupfs, map[string]int{"3": 1}},
		{"v2 systemd", with(base(), map[string]string{"proc/mounts": mountsV2, "sys/fs/cgroup/system.slice/cpuset.cpus.effective": "4\n"}), Systemd, map[string]int{"4": 1}},
		{"v2 root", with(base(), map[string]string{"proc/mounts": mountsV2, "sys/fs/cgroup/cpuset.cpus.effective": "0-1\n"}), "other", map[string]int{"0": 0, "1": 0}},
		{"broken", with(base(), map[string]string{"proc/mounts": mountsV2, "sys/fs/cgroup/cpuset.cpus.effective": "4-1\n", "proc/self/status": "Cpus_allowed_list:\tx\n"}), "", map[string]int{"0": 0, "1": 0, "3": 1, "4": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			devices, err := DetectCores(machine(c.files), Detection{Driver: c.driver, CPUOvercommit: 2})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for _, d := range devices {
				got[d.ID] = d.NUMANode
				if d.Name != CPU || d.Slot != CPU || !d.Capacity.Equal(Int(2)) {
					t.Errorf("device %+v", d)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDetectCoresRefused(t *testing.T) {
	if _, err := DetectCores(machine(nil), Detection{}); !errors.Is(err, ErrDetect) {
		t.Errorf("nothing to read: %v", err)
	}
	for _, factor := range []int{-1, MaxOvercommit + 1} {
		if _, err := DetectCores(machine(base()), Detection{CPUOvercommit: factor}); !errors.Is(err, ErrReservation) {
			t.Errorf("factor %d: %v", factor, err)
		}
	}
}

func TestParseCoreList(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0-2,8": {0, 1, 2, 8}, "8,0-2, 1": {0, 1, 2, 8}, "1-1": {1}} {
		got, err := parseCoreList(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	for _, bad := range []string{"", ",", "a", "3-1", "1-", "-1", "0-999999999", "1;2", "0-2-3", "99999999999"} {
		if got, err := parseCoreList(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

func TestDetectMemory(t *testing.T) {
	for _, c := range []struct {
		name   string
		files  map[string]string
		driver CgroupDriver
		want   int64
	}{
		{"meminfo", base(), "", 16 << 20},
		{"v1 unlimited", with(base(), map[string]string{"proc/mounts": mountsV1, "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}), Cgroupfs, 16 << 20},
		{"v1 container", with(base(), map[string]string{"proc/mounts": mountsV1, "sys/fs/cgroup/memory/memory.limit_in_bytes": "8388608\n"}), Cgroupfs, 8 << 20},
		{"v2 max", with(base(), map[string]string{"proc/mounts": mountsV2, "sys/fs/cgroup/memory.max": "max\n"}), Systemd, 16 << 20},
		{"v2 both", with(base(), map[string]string{"proc/mounts": mountsV2, "sys/fs/cgroup/memory.max": "8388608\n", "sys/fs/cgroup/system.slice/memory.max": "4194304\n"}), Systemd, 4 << 20},
		{"odd mount", with(base(), map[string]string{"proc/mounts": `cgroup2 /my\040groups cgroup2 rw 0 0` + "\n", "my groups/memory.max": "1048576\n"}), "", 1 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := DetectMemory(machine(c.files), Detection{Driver: c.driver, MemoryOvercommit: 3})
			if err != nil {
				t.Fatal(err)
			}
			want := Device{Name: Memory, ID: "root", Slot: Memory, Type: Bytes, Capacity: Int(3 * c.want)}
			if diff := cmp.Diff(want, d); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, bad := range []string{"", "MemTotal: x kB\n", "MemTotal: -1 kB\n", "MemTotal: 0 kB\n", "MemFree: 1 kB\n", "MemTotal: 9999999999999999 kB\n"} {
		if d, err := DetectMemory(machine(map[string]string{"proc/meminfo": bad}), Detection{}); !errors.Is(err, ErrDetect) {
			t.Errorf("%q: %+v, %v", bad, d, err)
		}
	}
	if _, err := DetectMemory(machine(base()), Detection{MemoryOvercommit: 1 << 60}); !errors.Is(err, ErrReservation) {
		t.Errorf("overflow: %v", err)
	}
}

// The machine that runs the tests has cores and memory.
func TestDetectHere(t *testing.T) {
	root := os.DirFS("/")
	cores, err := DetectCores(root, Detection{})
	if err != nil || len(cores) == 0 {
		t.Errorf("cores: %v, %v", cores, err)
	}
	memory, err := DetectMemory(root, Detection{})
	if err != nil || memory.Capacity.Sign() <= 0 {
		t.Errorf("memory: %+v, %v", memory, err)
	}
}

func TestContainerVectors(t *testing.T) {
	file := vectors[struct {
		Plugins []struct {
			Plugin string
			Alloc  [][2]any
			Args   outcome[struct {
				Host struct {
					CpusetCpus         string
					Cpus               int
					Memory, MemorySwap int64
				} `json:"HostConfig"`
			}] `json:"docker_args"`
			Attached outcome[[]AttachedDevice] `json:"attached_devices"`
		}
	}](t, "resources/plugins.json")
	ran := 0
	for _, c := range file.Plugins {
		if c.Plugin != CPU && c.Plugin != Memory {
			continue // accelerators
		}
		ran++
		devices := []Device{{Name: Memory, ID: MemoryDevice, Slot: Memory, Type: Bytes, Capacity: Int(1 << 40)}}
		for i := range 8 { // as many as the reference had: core 10 is not among them
			devices = append(devices, Device{Name: CPU, ID: strconv.Itoa(i), Slot: CPU, Capacity: Int(2)})
		}
		l, err := NewLedger(devices, DefaultPolicy())
		if err != nil {
			t.Fatal(err)
		}
		a := Allocation{c.Plugin: {}}
		for _, of := range c.Alloc {
			held := map[string]Amount{}
			for _, d := range of[1].([]any) {
				held[d.([]any)[0].(string)] = amount(t, d.([]any)[1].(string))
			}
			a[c.Plugin][of[0].(string)] = held
		}
		want := Container{CpusetCpus: c.Args.Value.Host.CpusetCpus, Cores: c.Args.Value.Host.Cpus, MemoryBytes: c.Args.Value.Host.Memory}
		if diff := cmp.Diff(want, ContainerOf(a)); diff != "" {
			t.Errorf("%s %v: container: %s", c.Plugin, c.Alloc, diff)
		}
		if diff := cmp.Diff(map[string][]AttachedDevice{c.Plugin: *c.Attached.Value}, l.Attached(a)); diff != "" {
			t.Errorf("%s %v: attached devices: %s", c.Plugin, c.Alloc, diff)
		}
	}
	if ran != 7 {
		t.Errorf("%d cases ran", ran)
	}
}
