// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLabelVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/vectors/runner/service-ports-label.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Label, Endpoints string
			Error            string
			Result           []struct {
				Name      string
				Protocol  Protocol
				Ports     []int `json:"container_ports"`
				Inference bool  `json:"is_inference"`
			}
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	classes := map[string]error{
		"Unsupported service port protocol": ErrLabel,
		"Invalid service-ports format":      ErrLabel,
		"must be larger than 1024":          ErrPortNumber,
		"must be smaller than 65535":        ErrPortNumber,
		"are reserved":                      ErrReservedPort,
		"is already used":                   ErrPortConflict,
	}
	for _, c := range file.Cases {
		got, err := ParseLabel(c.Label, c.Endpoints)
		if c.Error != "" {
			for text, class := range classes {
				if strings.Contains(c.Error, text) && !errors.Is(err, class) {
					t.Errorf("%q: %v, want %v", c.Label, err, class)
				}
			}
			if err == nil || got != nil {
				t.Errorf("%q: %v, %v; want %s", c.Label, got, err, c.Error)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.Label, err)
		}
		var want []Service
		for _, r := range c.Result {
			want = append(want, Service{Name: r.Name, Protocol: r.Protocol, ContainerPorts: r.Ports, Inference: r.Inference})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", c.Label, diff)
		}
	}
}

func TestLabelRefused(t *testing.T) {
	for label, want := range map[string]error{
		",a:tcp:9000":               ErrLabel,
		"a:tcp:9000,,b:tcp:9001":    ErrLabel,
		"a:tcp:[]":                  ErrLabel,
		"a:tcp:[9000,]":             ErrLabel,
		"a:tcp":                     ErrLabel,
		"a:TCP:9000":                ErrLabel,
		"a:internal:9000":           ErrLabel,
		"a:tcp:9999999":             ErrLabel,
		"a:tcp:٩٠٠٠":                ErrLabel,
		"a:tcp:[9000,9000]":         ErrPortConflict,
		"a:tcp:2003":                ErrReservedPort,
		"a:tcp:99999":               ErrPortNumber,
		"a\n:tcp:9000":              ErrLabel,
		"ok:http:8080,bad:http:bad": ErrLabel,
	} {
		if got, err := ParseLabel(label, ""); !errors.Is(err, want) || got != nil {
			t.Errorf("%q: %v, %v; want %v", label, got, err, want)
		}
	}
	if got, err := ParseLabel("노트북_1:http:8080", ""); err != nil || len(got) != 1 {
		t.Errorf("a name of another script: %v, %v", got, err)
	}
}

// The order is that of a main kernel recorded with 26.8.
func TestServices(t *testing.T) {
	main, err := Services(ServiceInput{
		Role: "main", Preopen: []int{8080, 9090}, Label: "web:http:8000,tb:http:[6006,6007]", Endpoints: "web",
		HostPorts: []int{30500}, Models: []ModelPort{{"llm", 8500}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []Service{
		{Name: "sshd", Protocol: TCP, ContainerPorts: []int{2200}},
		{Name: "ttyd", Protocol: HTTP, ContainerPorts: []int{7681}},
		{Name: "8080", Protocol: Preopen, ContainerPorts: []int{8080}},
		{Name: "9090", Protocol: Preopen, ContainerPorts: []int{9090}},
		{Name: "web", Protocol: HTTP, ContainerPorts: []int{8000}, Inference: true},
		{Name: "tb", Protocol: HTTP, ContainerPorts: []int{6006, 6007}},
		{Name: "hostport1", Protocol: Internal, ContainerPorts: []int{30500}, HostPorts: []int{30500}},
		{Name: "llm-8500", Protocol: Preopen, ContainerPorts: []int{8500}, Inference: true},
	}
	if diff := cmp.Diff(want, main); diff != "" {
		t.Error(diff)
	}
	sub, err := Services(ServiceInput{Role: "sub", Preopen: []int{8080}, Label: "web:http:8000", HostPorts: []int{30500}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[:2], sub); diff != "" {
		t.Error(diff)
	}

	needs := PortNeeds(main, Exposure{BindHost: "10.0.0.5", Protected: Protected("storage"), REPL: true, SSHPort: 30022})
	wantNeeds := []PortNeed{
		{"replin", 2000, "127.0.0.1", 0},
		{"replout", 2001, "127.0.0.1", 0},
		{"sshd", 2200, "10.0.0.5", 30022},
		{"ttyd", 7681, "127.0.0.1", 0},
		{"8080", 8080, "10.0.0.5", 0},
		{"9090", 9090, "10.0.0.5", 0},
		{"web", 8000, "10.0.0.5", 0},
		{"tb", 6006, "10.0.0.5", 0},
		{"tb", 6007, "10.0.0.5", 0},
		{"hostport1", 30500, "10.0.0.5", 30500},
		{"llm-8500", 8500, "10.0.0.5", 0},
	}
	if diff := cmp.Diff(wantNeeds, needs); diff != "" {
		t.Error(diff)
	}
	if Protected("compute") != nil {
		t.Error("compute groups protect nothing")
	}

	hostPorts := map[int]int{}
	for i, need := range needs {
		hostPorts[need.Container] = 30000 + i
	}
	leased, err := WithHostPorts(main, hostPorts)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{30007, 30008}, leased[5].HostPorts); diff != "" {
		t.Error(diff)
	}
	if main[0].HostPorts != nil {
		t.Error("the input was changed")
	}
	if diff := cmp.Diff([]int{30007, 30008}, InHostNetwork(leased)[5].ContainerPorts); diff != "" {
		t.Error(diff)
	}
	file, err := IntrinsicPortsFile(hostPorts)
	if err != nil || string(file.Content) != `{"replin":30000,"replout":30001,"sshd":30002,"ttyd":30003}` || file.Path != "intrinsic-ports.json" {
		t.Errorf("%s, %v", file.Content, err)
	}
	delete(hostPorts, 6007)
	if _, err := WithHostPorts(main, hostPorts); !errors.Is(err, ErrNoHostPort) {
		t.Errorf("a missing port: %v", err)
	}
}

func TestServicesRefused(t *testing.T) {
	for _, c := range []struct {
		in   ServiceInput
		want error
	}{
		{ServiceInput{Preopen: []int{2000}}, ErrReservedPort},
		{ServiceInput{Preopen: []int{2001}}, ErrReservedPort},
		{ServiceInput{Preopen: []int{2200}}, ErrPortConflict},
		{ServiceInput{Preopen: []int{8000, 8000}}, ErrPortConflict},
		{ServiceInput{Preopen: []int{0}}, ErrPortNumber},
		{ServiceInput{Preopen: []int{70000}}, ErrPortNumber},
		{ServiceInput{Preopen: []int{8080}, Label: "a:http:8080"}, ErrPortConflict},
		{ServiceInput{Label: "a:http"}, ErrLabel},
		{ServiceInput{HostPorts: []int{7681}}, ErrPortConflict},
		{ServiceInput{Models: []ModelPort{{"m", 2001}}}, ErrReservedPort},
		{ServiceInput{Models: []ModelPort{{"m", 8000}, {"n", 8000}}}, ErrPortConflict},
	} {
		c.in.Role = "main"
		if got, err := Services(c.in); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, %v", c.in, got, err)
		}
	}
}

func FuzzParseLabel(f *testing.F) {
	for _, seed := range []string{"web:http:8080", "a:tcp:[8000,8001],b:vnc:5900", "p:pty:1,", "a:tcp:[9000", "x:rdp:1025"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, label string) {
		services, err := ParseLabel(label, "")
		if err != nil {
			if !slices.ContainsFunc([]error{ErrLabel, ErrPortNumber, ErrReservedPort, ErrPortConflict}, func(e error) bool { return errors.Is(err, e) }) {
				t.Fatalf("%v is of no class", err)
			}
			return
		}
		if err := checkServices(services); err != nil {
			t.Fatalf("%q: %v", label, err)
		}
	})
}
