// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/pkg/apis"
	"agentd/pkg/netplan"
)

// planned is a kernel with everything that a user can ask for.
func planned(t *testing.T, edit func(in *planInput)) (planInput, Settings) {
	t.Helper()
	pair, err := netplan.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	uid := 2001
	in := planInput{
		kernel: &apis.Kernel{Meta: apis.Meta{Name: "k1"}, Spec: apis.KernelSpec{
			SessionID: "s1", Image: apis.ImageRef{Canonical: "registry.example/p/python:3.13"}, Incarnation: 1,
			ClusterRole: "main", ClusterIdx: 1, Hostname: "main1", UID: &uid, SupplementaryGIDs: []int{5000},
			Slots:           map[string]string{"cpu": "2", "mem": "1073741824"},
			Environ:         map[string]string{"PLAIN": "1", "LINES": "a\nb", "BACKENDAI_SERVICE_PORTS": ""},
			Mounts:          []apis.Mount{{Source: "/vfs/data", Target: "/home/work/data", VFolder: "data"}},
			UserKeyPair:     &apis.SSHKeyPair{Public: "ssh-ed25519 AAAA user", Private: "PRIVATE\n"},
			BootstrapScript: "echo hello\n", PreopenPorts: []int{8080}, Sudo: true,
			Dotfiles: []apis.Dotfile{{Path: ".bashrc", Perm: "0600", Data: "mine"}, {Path: "/home/work/.a/b", Perm: "755", Data: "x\n"}},
			Command:  []string{"sleep", "1"},
		}},
		session: &apis.ClusterSession{Meta: apis.Meta{Name: "s1"}, Spec: apis.ClusterSessionSpec{
			Replicas: map[string]int{"main": 1}, KeyPair: &apis.SSHKeyPair{Public: pair.Public, Private: apis.Secret(pair.Private)},
			Network: apis.NetworkAttachment{Mode: apis.NetworkBridge, Name: "net"},
		}},
		image: &apis.Image{Status: apis.ImageStatus{Labels: map[string]string{
			"ai.backend.service-ports": "web:http:8000", "ai.backend.envs.corecount": "NPROC, OMP_NUM_THREADS",
		}}},
		binding: &apis.Binding{Status: apis.BindingStatus{
			Allocations: apis.Allocations{"cpu": {"cpu": {"3": "1", "10": "1"}}, "mem": {"mem": {"root": "1073741824"}}},
			Ports:       []apis.PortLease{{Service: "sshd", Container: 2200, HostIP: "10.0.0.5", Host: 30000}},
		}},
		containerID: "c0ffee", dir: "/scratch/k1",
	}
	if edit != nil {
		edit(&in)
	}
	return in, Settings{
		AgentID: "i-1", BindHost: "10.0.0.5", KernelUID: 1000, KernelGID: 1000, RunnerPath: "/usr/lib/agentd/bai-runner",
		ScratchKind: "hostdir", AlternativeBridge: "other", LogMaxBytes: 10 << 20,
	}
}

// TestScratchFor: every file with its mode and owner (B071, B136). Files of the
// home directory are the user's from then on.
func TestScratchFor(t *testing.T) {
	in, set := planned(t, nil)
	spec, err := ScratchFor(in, set)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range spec.Dirs {
		got = append(got, fmt.Sprintf("%04o %d:%d %s/", d.Mode, d.UID, d.GID, d.Path))
	}
	for _, f := range spec.Files {
		once := ""
		if f.Once {
			once = " once"
		}
		got = append(got, fmt.Sprintf("%04o %d:%d %s%s", f.Mode, f.UID, f.GID, f.Path, once))
	}
	slices.Sort(got)
	want := []string{
		"0440 0:1000 config/sudoers",
		"0600 0:0 agentd.json",
		"0600 2001:1000 config/ssh/id_cluster",
		"0600 2001:1000 work/.bashrc once",
		"0600 2001:1000 work/.ssh/authorized_keys once",
		"0600 2001:1000 work/.ssh/id_rsa once",
		"0600 2001:1000 work/id_container once",
		"0640 0:1000 config/environ.json",
		"0640 0:1000 config/environ.txt",
		"0640 0:1000 config/environ_base.txt",
		"0640 0:1000 config/resource.txt",
		"0640 0:1000 config/resource_base.txt",
		"0644 2001:1000 config/ssh/id_cluster.pub",
		"0644 2001:1000 work/.bash_profile once",
		"0644 2001:1000 work/.tmux.conf once",
		"0644 2001:1000 work/.vimrc once",
		"0644 2001:1000 work/.zshrc once",
		"0644 2001:1000 work/DO_NOT_STORE_PERSISTENT_FILES_HERE.md once",
		"0644 2001:1000 work/bootstrap.sh once",
		"0700 2001:1000 config/ssh/",
		"0700 2001:1000 run/",
		"0700 2001:1000 work/.ssh/",
		"0750 0:1000 config/",
		"0755 2001:1000 work/",
		"0755 2001:1000 work/.a/b once",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("scratch (-want +got):\n%s", d)
	}
	content := func(path string) string {
		for _, f := range spec.Files {
			if f.Path == path {
				return f.Content.Reveal()
			}
		}
		t.Errorf("no file %s", path)
		return ""
	}
	env := content("config/environ.txt")
	for _, line := range []string{
		"ADDITIONAL_GIDS=5000", "BACKENDAI_PERSISTENT_PATHS=/home/work/data", "BACKENDAI_SERVICE_PORTS=web:http:8000",
		"GPU_COUNT=0", "LOCAL_GROUP_ID=1000", "LOCAL_USER_ID=2001", "NPROC=2", "N_GPUS=0", "OMP_NUM_THREADS=2", "PLAIN=1",
	} {
		if !strings.Contains("\n"+env, "\n"+line+"\n") {
			t.Errorf("environ.txt lacks %s:\n%s", line, env)
		}
	}
	if strings.Contains(env, "LINES") || !strings.Contains(content("config/environ.json"), `"LINES":"a\nb"`) {
		t.Errorf("a value of two lines belongs into environ.json only:\n%s", env)
	}
	if r := content("config/resource.txt"); !strings.Contains(r, "CPU_SHARES=3:1,10:1\n") || !strings.HasSuffix(r, "CID=c0ffee\n") {
		t.Errorf("resource.txt:\n%s", r)
	}
	if b := content("config/resource_base.txt"); strings.Contains(b, "CID=") {
		t.Errorf("resource_base.txt knows the container:\n%s", b)
	}
	if b := content("work/.bashrc"); b != "mine\n" {
		t.Errorf("the user's .bashrc: %q", b)
	}
}

// TestScratchForOwnSSHFolder: a folder that the user mounts at ~/.ssh brings its own keys.
func TestScratchForOwnSSHFolder(t *testing.T) {
	in, set := planned(t, func(in *planInput) {
		in.kernel.Spec.Mounts = []apis.Mount{{Source: "/vfs/ssh", Target: "/home/work/.ssh", VFolder: ".ssh"}}
	})
	spec, err := ScratchFor(in, set)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range spec.Files {
		if strings.HasPrefix(f.Path, "work/.ssh") || f.Path == "work/id_container" {
			t.Errorf("%s was planned", f.Path)
		}
	}
}

// TestContainerFor: limits, names, labels and the network of a kernel; the same
// input gives the same container.
func TestContainerFor(t *testing.T) {
	in, set := planned(t, nil)
	c, err := ContainerFor(in, set)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ContainerFor(in, set)
	if err != nil || apis.ContainerHash(c) != apis.ContainerHash(again) {
		t.Errorf("two plans of one input differ: %v", err)
	}
	for what, x := range map[string][2]any{
		"name":     {c.EngineName, "kernel.python.k1"},
		"cpuset":   {c.CpusetCpus, "3,10"},
		"memory":   {c.MemoryBytes, int64(1 << 30)},
		"network":  {c.NetworkMode, "net"},
		"alias":    {strings.Join(c.Aliases, " "), "main1"},
		"command":  {strings.Join(c.Cmd, " "), "/opt/kernel/bai-runner runner -- sleep 1"},
		"services": {c.Labels[apis.LabelServicePorts], "web:http:8000,8080:preopen:8080"},
		"user":     {c.User, "0:0"},
	} {
		if x[0] != x[1] {
			t.Errorf("%s: %v, want %v", what, x[0], x[1])
		}
	}
	for _, m := range c.Mounts {
		if strings.HasPrefix(m.Target, "/home/config") && !m.ReadOnly {
			t.Errorf("%s is writable inside the kernel", m.Target)
		}
	}
	alone, set := planned(t, func(in *planInput) { in.session.Spec.Network = apis.NetworkAttachment{} })
	if c, err := ContainerFor(alone, set); err != nil || c.NetworkMode != "other" {
		t.Errorf("a kernel alone is in %q, want the alternative bridge: %v", c.NetworkMode, err)
	}
}

// TestBindingFor: one host port for each container port, and what the node publishes where.
func TestBindingFor(t *testing.T) {
	in, set := planned(t, nil)
	set.ScalingGroupType = "storage"
	spec, err := BindingFor(in, set)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range spec.Ports {
		got = append(got, fmt.Sprintf("%s %s:%d", p.Service, p.HostIP, p.Container))
	}
	want := []string{"sshd 10.0.0.5:2200", "ttyd 127.0.0.1:7681", "8080 10.0.0.5:8080", "web 10.0.0.5:8000"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("ports (-want +got):\n%s", d)
	}
}
