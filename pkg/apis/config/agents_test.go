// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAgentsInheritWhatTheyDoNotSet(t *testing.T) {
	c, report := mustLoad(t, `
[etcd]
[agent]
backend = "docker"
agent-sock-port = 7000
initial-resource-group-name = "gpu"
[container]
port-range = [20000, 20999]
jail-args = ["a"]
[resource]
[[agents]]
[agents.agent]
id = "a"
[agents.container]
port_range = [21000, 21999]
scratch-root = "one"
[[agents]]
agent = {id = "b", agent-sock-port = 7001, scaling-group = "cpu"}
`, nil)
	if len(c.Agents) != 2 {
		t.Fatalf("%d agents, want 2", len(c.Agents))
	}
	common := AgentEntry{Agent: c.Agent.AgentNode, Container: c.Container.ContainerNode}
	one, two := common, common
	one.Agent.ID = "a"
	one.Container.PortRange, one.Container.ScratchRoot = PortRange{21000, 21999}, "/srv/one"
	two.Agent.ID, two.Agent.AgentSockPort, two.Agent.InitialResourceGroupName = "b", 7001, "cpu"
	if diff := cmp.Diff([]AgentEntry{one, two}, c.Agents); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	if got := report.Origin("agents[1].agent.agent-sock-port").Line; got != 18 {
		t.Errorf("agents[1].agent.agent-sock-port comes from line %d, want 18", got)
	}
	if len(report.Warnings) != 1 || report.Warnings[0].Kind != Deprecated {
		t.Errorf("warnings = %v, want one about scaling-group", report.Warnings)
	}
}

func TestAgentsRules(t *testing.T) {
	const p = confPath
	const a, b = "[[agents]]\nagent={id='a'}\n", "[[agents]]\nagent={id='b'}\n"
	shared := minimal
	mode := func(m string) string {
		return "[agent]\nbackend='docker'\n[container]\n[etcd]\n[resource]\nallocation-mode='" + m + "'\n"
	}
	cases := []struct {
		name, src string
		want      []string
	}{
		{"shared", shared + a + b, nil},
		{"none", shared + "[logging]\n", nil},
		{"one", shared + a, []string{p + ":6: agents: agents should not be specified with only 1 agent configuration. Please use the default single agent mode if only 1 agent is needed."}},
		{"not a list", shared + "[agents]\n", []string{p + ":6: agents: expected a list of tables [[agents]], found a table"}},
		{"not tables", "agents = [1, 2]\n" + shared, []string{
			p + ":1: agents[0]: expected a table [agents[0]], found the integer 1",
			p + ":1: agents[1]: expected a table [agents[1]], found the integer 2",
			p + ":1: agents[1]: Duplicate agent IDs found! agents[0] and agents[1] have no agent.id; give each its own",
		}},
		{"no agent table", shared + a + "[[agents]]\ncontainer={}\n", []string{
			p + ":8: agents[1].agent: the table is missing: every entry of [[agents]] needs one, with at least an id",
		}},
		{"same ID", shared + a + a, []string{p + `:8: agents[1]: Duplicate agent IDs found! agents[0] and agents[1] are both "a"`}},
		{"wrong value in an entry", shared + a + "[[agents]]\n[agents.agent]\nid='b'\n[agents.container]\nport-range=[2, 1]\nscratch-size=-1\n", []string{
			p + ":12: agents[1].container.port-range: the first port 2 is above the last port 1; write [1, 2]",
			p + ":13: agents[1].container.scratch-size: expected a size such as \"10M\" or a number of bytes, at least 0, found the integer -1",
		}},
		{"share in shared mode", shared + a + b + "resource={cpu=1, mem=1}\n", []string{
			p + `:10: agents[1].resource: On non-MANUAL mode, config must not specify manual resource allocations. resource.allocation-mode is "shared"`,
		}},
		{"share in auto-split mode", mode("auto-split") + "allocations={cpu=1, mem=1}\n" + a + b, []string{
			p + `:7: resource.allocations: On non-MANUAL mode, config must not specify manual resource allocations. resource.allocation-mode is "auto-split"`,
		}},
		{"manual without a share", mode("manual") + a + "resource={cpu=1, mem=1}\n" + b, []string{
			p + ":10: agents[1]: On MANUAL mode, config must specify cpu and mem resource allocations in the table agents.resource",
		}},
		{"manual, alone, without a share", mode("manual"), []string{
			p + ":6: resource.allocation-mode: On MANUAL mode, config must specify cpu and mem resource allocations in resource.allocations",
		}},
		{"manual with half a share", mode("manual") + a + "resource={cpu=1}\n" + b + "resource={cpu=1, mem=-2}\n", []string{
			p + `:9: agents[0].resource.mem: is missing: expected a size such as "10M" or a number of bytes`,
			p + ":12: agents[1].resource.mem: Allocated mem must not be a negative value, but given -2",
		}},
		{"manual with different slots", mode("manual") + a + "resource={cpu=1, mem=1, devices={'cuda.device'=1}}\n" + b + "resource={cpu=1, mem=1, devices={'rocm.device'=1}}\n", []string{
			p + ":10: agents[1]: All agents must have the same slots defined in the devices! agents[0] has [cuda.device], agents[1] has [rocm.device]",
		}},
		{"manual", mode("manual") + a + "resource={cpu=1, mem='1G', devices={x=1}}\n" + b + "resource={cpu=1, mem='1G', devices={x='0.5'}}\n", nil},
		{"manual, alone", mode("manual") + "allocations={cpu=1, mem='1G'}\n", nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := load(tc.src, nil)
			if diff := cmp.Diff(tc.want, lines(err)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// What an entry inherits is judged once, in the common table.
func TestAgentsDoNotRepeatErrors(t *testing.T) {
	m := machine(map[string]string{confPath: strings.Replace(minimal, "[container]\n", "[container]\nscratch-type='hostfile'\n", 1) +
		"[[agents]]\nagent={id='a'}\n[[agents]]\nagent={id='b'}\ncontainer={scratch-type='hostfile'}\n"}, nil)
	m.UID = 1
	_, _, err := m.Load(confPath)
	want := []string{
		confPath + ":4: container.scratch-type: Cannot use hostfile scratch type unless the agent runs as root.",
		confPath + ":11: agents[1].container.scratch-type: Cannot use hostfile scratch type unless the agent runs as root.",
	}
	if diff := cmp.Diff(want, lines(err)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}
