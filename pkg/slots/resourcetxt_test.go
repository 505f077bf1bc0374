// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// specJSON is a resource spec of the vectors.
type specJSON struct {
	Slots struct {
		Amounts map[string]string `json:"$resource_slot"`
	}
	Allocations map[string]map[string]map[string]struct {
		Decimal string `json:"$decimal"`
	}
	Mounts []struct {
		Source, Target struct {
			Path string `json:"$path"`
		}
		Permission struct {
			Enum [2]string `json:"$enum"`
		}
	}
	Unified [][2]string `json:"unified_devices"`
}

func (s specJSON) text(t *testing.T) ResourceText {
	r := ResourceText{Slots: amountsOf(t, s.Slots.Amounts), Unified: s.Unified, Allocation: Allocation{}}
	for _, m := range s.Mounts {
		r.Mounts = append(r.Mounts, MountText{m.Source.Path, m.Target.Path, m.Permission.Enum[1]})
	}
	for device, bySlot := range s.Allocations {
		r.Allocation[device] = map[string]map[string]Amount{}
		for slot, shares := range bySlot {
			held := map[string]Amount{}
			for id, d := range shares {
				held[id] = amount(t, d.Decimal)
			}
			r.Allocation[device][slot] = held
		}
	}
	return r
}

type resourceVectors struct {
	Types map[string]Type `json:"known_slot_types"`
	Write []struct {
		ID   string
		Spec specJSON
		Text outcome[string]
		Back outcome[specJSON] `json:"read_back"`
	}
	Read []struct {
		ID, Text string
		Result   outcome[specJSON]
	}
	Scan struct {
		PerSlot map[string]string `json:"per_slot"`
	}
}

// sameText compares what the vectors compare: neither order nor extra lines,
// and a device without any allocation is no device.
func sameText(want, got ResourceText) string {
	drop := func(a Allocation) map[string]map[string]map[string]Amount {
		out := map[string]map[string]map[string]Amount{}
		for device, bySlot := range a {
			if len(bySlot) > 0 {
				out[device] = bySlot
			}
		}
		return out
	}
	want.Allocation, got.Allocation = drop(want.Allocation), drop(got.Allocation)
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(ResourceText{}, "Order", "Extra", "ContainerID"))
}

// TestResourceTextWriteVectors compares with the reference's bytes; only
// amounts of bytes and exponents, which it rounds or abbreviates, are exact here.
func TestResourceTextWriteVectors(t *testing.T) {
	v := vectors[resourceVectors](t, "resources/resource_txt.json")
	exact := map[string][]string{
		"mem-odd": {"root:1.02g", "root:1100000000"},
		"exp":     {"root:9.54m", "root:10000000", "g:1E+1", "g:10"},
	}
	common := strings.NewReplacer("root:1g\n", "root:1073741824\n", "root:512m\n", "root:536870912\n", "root:1k\n", "root:1024\n")
	for _, c := range v.Write {
		spec := c.Spec.text(t)
		if c.ID == "exp" {
			spec.Order = []string{CPU, Memory, "cuda"}
		}
		got, err := spec.Format()
		switch {
		case c.ID == "pci-id": // the reference writes what it cannot read
			if !errors.Is(err, ErrResourceText) {
				t.Errorf("%s: %q, %v", c.ID, got, err)
			}
			continue
		case c.Text.Value == nil:
			if !errors.Is(err, ErrResourceText) {
				t.Errorf("%s: %q, %v; want an error", c.ID, got, err)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		want := strings.NewReplacer(exact[c.ID]...).Replace(*c.Text.Value)
		if diff := cmp.Diff(common.Replace(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.ID, diff)
		}
		back, err := ParseResourceText(got, v.Types)
		if err != nil {
			t.Errorf("%s: read back: %v", c.ID, err)
		}
		if diff := sameText(spec, back); diff != "" {
			t.Errorf("%s: read back:\n%s", c.ID, diff)
		}
		theirs, err := ParseResourceText([]byte(*c.Text.Value), v.Types)
		if err != nil {
			t.Errorf("%s: the reference's text: %v", c.ID, err)
		}
		if diff := sameText(c.Back.Value.text(t), theirs); diff != "" {
			t.Errorf("%s: the reference's text:\n%s", c.ID, diff)
		}
	}
}

func TestResourceTextReadVectors(t *testing.T) {
	v := vectors[resourceVectors](t, "resources/resource_txt.json")
	for _, c := range v.Read {
		got, err := ParseResourceText([]byte(c.Text), v.Types)
		if c.Result.Value == nil {
			if !errors.Is(err, ErrResourceText) {
				t.Errorf("%s: %+v, %v; want an error", c.ID, got, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		if diff := sameText(c.Result.Value.text(t), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.ID, diff)
		}
	}
}

func TestResourceTextScan(t *testing.T) {
	v := vectors[resourceVectors](t, "resources/resource_txt.json")
	total := Amounts{}
	for _, requested := range []string{
		`{"cpu":"5","mem":"4096","cuda.shares":"0.5"}`, `{"cpu":"7","mem":"2048","cuda.device":"2"}`, `{"cpu":"1","mem":"1"}`,
	} {
		r, err := ParseResourceText([]byte("SCRATCH_SIZE=0m\nMOUNTS=\nSLOTS="+requested+"\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		total = total.Add(r.Slots)
	}
	if diff := cmp.Diff(amountsOf(t, v.Scan.PerSlot), total); diff != "" {
		t.Error(diff)
	}
}

// Whatever is damaged, the rest is read: what a kernel holds must not be lost.
func TestResourceTextDamaged(t *testing.T) {
	text := "CID=abc\nSCRATCH_SIZE=?\nMOUNTS=/a,b:/c:ro,/ok:/d:rw\nSLOTS={\"cpu\":\nUNIFIED_DEVICES=1\n" +
		"CPU_SHARES=0:1,1:x\nMEM_SHARES=root:1.5g\nCUDA_GLOBAL_DEVICE_IDS=0:0\r\n"
	got, err := ParseResourceText([]byte(text), nil)
	for _, word := range []string{"SCRATCH_SIZE", "MOUNTS", `"/a"`, "SLOTS", "UNIFIED_DEVICES", "CPU_SHARES", `"1"`} {
		if !errors.Is(err, ErrResourceText) || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
	want := ResourceText{
		Slots:       Amounts{},
		Allocation:  Allocation{CPU: {CPU: {"0": Int(1)}}, Memory: {Memory: {"root": Int(3 << 29)}}},
		Order:       []string{CPU, Memory},
		Extra:       []Line{{"CUDA_GLOBAL_DEVICE_IDS", "0:0"}},
		ContainerID: "abc",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(ResourceText{}, "Unified")); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseResourceText([]byte("MOUNTS=\xff\n"), nil); !errors.Is(err, ErrResourceText) {
		t.Errorf("not UTF-8: %v", err)
	}
}

func TestResourceTextRefusesToWrite(t *testing.T) {
	held := func(device, slot, id string) ResourceText {
		return ResourceText{Allocation: Allocation{device: {slot: {id: Int(1)}}}}
	}
	mount := func(source, target, permission string) ResourceText {
		return ResourceText{Mounts: []MountText{{source, target, permission}}}
	}
	for what, r := range map[string]ResourceText{
		"comma":          mount("/a,b", "/c", "ro"),
		"colon":          mount("/a:b", "/c", "ro"),
		"target comma":   mount("/a", "/c,d", "ro"),
		"newline":        mount("/a\nCID=x", "/c", "ro"),
		"line separator": mount("/a\u2028b", "/c", "ro"),
		"not UTF-8":      mount("/a\xffb", "/c", "ro"),
		"relative":       mount("a/b", "/c", "ro"),
		"no source":      mount("", "/c", "ro"),
		"target":         mount("/a", "c", "ro"),
		"permission":     mount("/a", "/c", "rwx"),
		"prefix":         held("xpu", "cuda.device", "0"),
		"dotted device":  held("a.b", "a.b.c", "0"),
		"upper case":     held("GPU", "GPU.device", "0"),
		"slot sign":      {Slots: Amounts{"a=b": Int(1)}},
		"ID colon":       held("x", "x.device", "0000:99:00.0"),
		"ID comma":       held("x", "x.device", "0,1"),
		"no ID":          held("x", "x.device", ""),
		"reserved key":   {Extra: []Line{{"CPU_SHARES", "0:1"}}},
		"extra newline":  {Extra: []Line{{"A", "b\nc"}}},
		"container":      {ContainerID: "a\nb"},
		"scratch":        {ScratchBytes: amount(t, "Infinity")},
	} {
		if got, err := r.Format(); !errors.Is(err, ErrResourceText) || got != nil {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

func TestResourceTextComplete(t *testing.T) {
	r := ResourceText{
		Mounts:      []MountText{{"/srv/k/config", "/home/config", "ro"}, {"vol", "/opt/x", "rw"}},
		Slots:       Amounts{Memory: Int(1433 << 20), CPU: Int(2)},
		Allocation:  Allocation{Memory: {Memory: {"root": Int(1433 << 20)}}, CPU: {CPU: {"10": Int(1), "9": Int(1)}}},
		Extra:       []Line{{"CUDA_RESOURCE_VIRTUALIZED", "0"}},
		ContainerID: strings.Repeat("ab", 32),
	}
	got, err := r.Format()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/resource.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

// FuzzResourceText reads anything without panic, and what it could read and
// write again it reads back the same.
func FuzzResourceText(f *testing.F) {
	seed, err := os.ReadFile("testdata/resource.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte("CID=\nSCRATCH_SIZE=1g\nMOUNTS=/a:/b:wd\nSLOTS={\"cpu\": \"1\", \"x\": null}\nX.SHARES_SHARES=g:0.30,h:1E+1\nMEM_SHARES=root:1.02g\n"))
	f.Add([]byte("SLOTS={\"cpu\":\"Infinity\"}\n_SHARES=a:1\nUNIFIED_DEVICES=[[\"npu\",\"npu.unified\"]]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := ParseResourceText(data, nil)
		if err != nil {
			if !errors.Is(err, ErrResourceText) {
				t.Fatalf("%v is not ErrResourceText", err)
			}
			return
		}
		text, err := first.Format()
		if err != nil {
			return // what no one could read back
		}
		second, err := ParseResourceText(text, nil)
		if err != nil {
			t.Fatalf("cannot read its own\n%s\n%v", text, err)
		}
		// The size of the scratch is rounded.
		first.ScratchBytes = second.ScratchBytes
		first.Order, second.Order = nil, nil
		slices.SortFunc(first.Extra, func(a, b Line) int { return strings.Compare(a.Key, b.Key) })
		slices.SortFunc(second.Extra, func(a, b Line) int { return strings.Compare(a.Key, b.Key) })
		if diff := cmp.Diff(first, second, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("read back differently:\n%s", diff)
		}
	})
}
