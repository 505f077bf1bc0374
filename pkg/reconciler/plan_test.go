// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"agentd/pkg/apis"
)

var planSettings = Settings{KernelUID: 1000, KernelGID: 1000, RunnerPath: "/usr/lib/agentd/bai-runner", ScratchKind: "hostdir"}

// planFor is the input of a plan for one kernel of an image with labels.
func planFor(k apis.KernelSpec, labels map[string]string) planInput {
	k.SessionID, k.Hostname, k.ClusterRole = "s", "main1", "main"
	return planInput{
		kernel:  &apis.Kernel{Meta: apis.Meta{Name: "k"}, Spec: k},
		session: &apis.ClusterSession{Meta: apis.Meta{Name: "s"}, Spec: apis.ClusterSessionSpec{Kernels: []string{"k"}}},
		image:   &apis.Image{Status: apis.ImageStatus{Labels: labels}},
		binding: &apis.Binding{},
		dir:     "/scratch/k",
	}
}

// TestSudoIsAskedForByTheRequestOnly: nothing that the user may set gives it (B134).
func TestSudoIsAskedForByTheRequestOnly(t *testing.T) {
	for _, c := range []struct {
		spec apis.KernelSpec
		want []apis.ScratchFile
	}{
		{apis.KernelSpec{Environ: map[string]string{"SUDO_SESSION_ENABLED": "1"}}, nil},
		{apis.KernelSpec{Sudo: true}, []apis.ScratchFile{
			{Path: "config/sudoers", Mode: 0o440, UID: 0, GID: 1000, Content: "work ALL=(ALL:ALL) NOPASSWD:ALL\n"},
		}},
	} {
		spec, err := ScratchFor(planFor(c.spec, nil), planSettings)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(spec.Files, func(f apis.ScratchFile) bool { return f.Path != "config/sudoers" })
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
	}
}

// TestServicePortsVariable: what the request left open comes from the image.
func TestServicePortsVariable(t *testing.T) {
	const name = "BACKENDAI_SERVICE_PORTS"
	label := map[string]string{apis.LabelServicePorts: "web:http:8080"}
	for _, c := range []struct {
		what   string
		asked  map[string]string
		labels map[string]string
		want   map[string]string
	}{
		{"empty", map[string]string{name: ""}, label, map[string]string{name: "web:http:8080"}},
		{"empty without a label", map[string]string{name: ""}, nil, map[string]string{name: ""}},
		{"given", map[string]string{name: "api:tcp:9000"}, label, map[string]string{name: "api:tcp:9000"}},
		{"absent", nil, label, map[string]string{}},
	} {
		t.Run(c.what, func(t *testing.T) {
			in := planFor(apis.KernelSpec{Environ: c.asked}, c.labels)
			got := environOf(in, planSettings)
			maps.DeleteFunc(got, func(k, _ string) bool { return k != name })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			if v := in.kernel.Spec.Environ[name]; v != c.asked[name] {
				t.Errorf("the wish became %q", v)
			}
		})
	}
}
