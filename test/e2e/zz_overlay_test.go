// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// TestOverlay: a session joins an attachable overlay network by its name. The
// network is not the session's own: it is neither made nor removed with it.
func TestOverlay(t *testing.T) {
	a := prepareAgent(t, with("agentd.start-timeout", `"15s"`))
	if a.docker("info", "-f", "{{.Swarm.LocalNodeState}}") == "inactive" {
		a.docker("swarm", "init", "--advertise-addr", "127.0.0.1", "--listen-addr", "127.0.0.1")
		t.Cleanup(func() {
			a.docker("swarm", "leave", "--force")
			_ = exec.Command("docker", "network", "rm", "docker_gwbridge").Run()
		})
	}
	name := a.id + "-overlay"
	a.docker("network", "create", "-d", "overlay", "--attachable", name)
	t.Cleanup(func() { a.docker("network", "rm", name) })
	a.start()
	file := a.apply("overlay", session("overlay", busybox, 1, "network: {mode: overlay, name: "+name+"}"))
	if got := a.must("exec", "overlay/main1", "--", "ssh", "sub1", "hostname"); got != "sub1" {
		t.Errorf("ssh sub1 hostname: %q", got)
	}
	if got := a.must("exec", "overlay/sub1", "--", "ssh", "main1", "hostname"); got != "main1" {
		t.Errorf("ssh main1 hostname: %q", got)
	}
	nets := a.docker("inspect", "-f", "{{range $k, $v := .NetworkSettings.Networks}}{{$k}} {{end}}", a.container(a.kernel("main1")))
	if strings.TrimSpace(nets) != name {
		t.Errorf("main1 is in %q, want only %s", nets, name)
	}
	a.must("delete", "-f", file)
	a.mustBeClean()
	if got := a.docker("network", "ls", "-q", "--filter", "name="+name); got == "" {
		t.Error("the network was removed with the session")
	}

	missing := a.file("missing", session("missing", busybox, 0, "network: {mode: overlay, name: not-there}"))
	r := a.run("apply", "-f", missing, "--timeout", "90s")
	if r.code == 0 || !strings.Contains(r.out+r.err, "not-there") {
		t.Errorf("a network that does not exist: exit %d\n%s%s", r.code, r.out, r.err)
	}
	a.mustBeClean()
}
