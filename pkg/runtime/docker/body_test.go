// SPDX-License-Identifier: Apache-2.0

package docker_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/pkg/apis"
	"agentd/pkg/runtime/docker"
	"agentd/test/e2e/engine"
)

// fullSpec has every field set.
func fullSpec() apis.ContainerSpec {
	return apis.ContainerSpec{
		EngineName: name, Incarnation: 1, Run: true, Image: imgRef, Hostname: "main1", User: "0:0", WorkingDir: "/home/work",
		Entrypoint: []string{"/opt/kernel/entrypoint.sh"}, Cmd: []string{"runner", "--debug"}, Env: []string{"A=1", "B=x y"},
		Labels: map[string]string{apis.LabelKernelID: kernel},
		Mounts: []apis.Mount{{Source: "/tmp", Target: "/home/work"}, {Source: "cache", Target: "/cache", ReadOnly: true}},
		Ports: []apis.PortLease{
			{Service: "sshd", Container: 2200, HostIP: "127.0.0.1", Host: 30001},
			{Service: "ttyd", Container: 7681, Host: 30002},
		},
		ExposedPorts: []int{2200, 8080}, NetworkMode: "bai-singlenode-s1", Aliases: []string{"main1"},
		EndpointOpt: map[string]string{"com.docker.network.endpoint.ifname": "baimulti0"}, ExtraHosts: []string{"sub1:10.0.0.2"},
		CpusetCpus: "0,2", MemoryBytes: 1 << 53, ShmBytes: 64 << 20, Ulimits: []apis.Ulimit{{Name: "memlock", Soft: -1, Hard: -1}},
		CapAdd: []string{"IPC_LOCK", "SYS_NICE"}, SecurityOpt: []string{"seccomp={}"}, Devices: []string{"/dev/infiniband", "/dev/a:/dev/b:r"},
		StopSignal: "SIGINT", LogMaxBytes: 10 << 20,
	}
}

// significant drops what the engine's form spells out although it is empty or zero.
func significant(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if s := significant(e); s != nil {
				out[k] = s
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if !slices.ContainsFunc(v, func(e any) bool { return significant(e) != nil }) {
			return nil
		}
		return v
	case bool:
		if !v {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	case float64:
		if v == 0 {
			return nil
		}
	}
	return v
}

func decode(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	// The ports of this set are its keys; the values are empty.
	if ports, ok := v["ExposedPorts"].(map[string]any); ok {
		for port := range ports {
			ports[port] = true
		}
	}
	return significant(v).(map[string]any)
}

// checkBody compares with a file.
func checkBody(t *testing.T, got []byte, file string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decode(t, want), decode(t, got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s\ngot:\n%s", file, diff, got)
	}
}

func TestCreateBody(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		if _, err := e.Create(t.Context(), fullSpec()); err != nil {
			t.Fatal(err)
		}
		checkBody(t, fake.Body(name), "testdata/create-full.json")
		least := spec()
		least.EngineName = "kernel.python.least"
		if _, err := e.Create(t.Context(), least); err != nil {
			t.Fatal(err)
		}
		checkBody(t, fake.Body(least.EngineName), "testdata/create-least.json")
	})
}

func TestOverridesAreMergedLast(t *testing.T) {
	fake := engine.NewFake(t)
	fake.AddImage(imgRef, "amd64", nil, nil)
	e := open(t, fake.Host(), func(o *docker.Options) {
		o.Overrides = []docker.Override{
			{Path: "/etc/a.json", JSON: []byte(`{"Env":["C=3"],"HostConfig":{"CapAdd":["SYS_ADMIN"],"Memory":1048576,"Binds":["/x:/y"],"Sysctls":{"net.core.somaxconn":"1024"}}}`)},
			{Path: "/etc/b.json", JSON: []byte(`{"HostConfig":{"Privileged":true,"Binds":["/z:/w"],"Sysctls":{"net.ipv4.ip_forward":"1"}}}`)},
		}
	})
	s := fullSpec()
	if _, err := e.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Env        []string
		Labels     map[string]string
		HostConfig struct {
			CapAdd, Binds      []string
			Memory, MemorySwap int64
			Privileged         bool
			Sysctls            map[string]string
		}
	}
	if err := json.Unmarshal(fake.Body(name), &got); err != nil {
		t.Fatal(err)
	}
	want := got
	want.Env = []string{"A=1", "B=x y", "C=3"}
	want.HostConfig.CapAdd = []string{"CAP_IPC_LOCK", "CAP_SYS_ADMIN", "CAP_SYS_NICE"}
	want.HostConfig.Binds = []string{"/x:/y", "/z:/w"}
	want.HostConfig.Memory, want.HostConfig.MemorySwap = 1048576, 1<<53
	want.HostConfig.Privileged = true
	want.HostConfig.Sysctls = map[string]string{"net.core.somaxconn": "1024", "net.ipv4.ip_forward": "1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if got.Labels[apis.LabelSpecHash] != apis.ContainerHash(s) {
		t.Error("an override changed the hash")
	}
}

func TestOverrideOfAnotherTypeIsNamed(t *testing.T) {
	fake := engine.NewFake(t)
	fake.AddImage(imgRef, "amd64", nil, nil)
	for _, body := range []string{`{"Hostname":3}`, `{"Env":{}}`, `{"HostConfig":[]}`, `{"HostConfig":{"Init":"yes"}}`, `{"Tty":"x"}`} {
		_, err := docker.New(docker.Options{Host: fake.Host(), AgentID: agent, Overrides: []docker.Override{{Path: "/etc/o.json", JSON: []byte(body)}}})
		wantWords(t, err, "/etc/o.json")
	}
}
