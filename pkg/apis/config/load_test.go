// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"agentd/pkg/apis"
)

// full is the machine on which testdata/full.toml is valid.
func full(t *testing.T) *Machine {
	t.Helper()
	return machine(map[string]string{
		confPath:                        readTestdata(t, "full.toml"),
		"/pki/agent.pem":                "",
		"/pki/agent-key.pem":            "",
		"/pki/manager.key":              "",
		"/pki/agent.key_secret":         "",
		"/proc/sys/kernel/core_pattern": "/tmp/core.%p\n",
	}, nil)
}

func TestEveryKeyShown(t *testing.T) {
	c, report, err := full(t).Load(confPath)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(shown), "hush") {
		t.Errorf("a secret is shown:\n%s", shown)
	}
	golden(t, "full.show", string(shown))
	if got := c.Etcd.Password.Reveal() + c.Redis.OverrideConfigs.StreamLock.Password.Reveal(); got != "etcd-hushlock-hush" {
		t.Errorf("secrets read as %q", got)
	}
	if len(report.Warnings) > 0 {
		t.Errorf("warnings on a correct file: %v", report.Warnings)
	}
	for _, o := range report.Origins {
		// The same keys again in an agent or for one use of Redis may stay away.
		again := strings.HasPrefix(o.Key, "agents[") || strings.HasPrefix(o.Key, "redis.override-configs.")
		if o.Line == 0 && !again {
			t.Errorf("testdata/full.toml does not set %s", o.Key)
		}
	}
	var b strings.Builder
	for _, n := range report.Unused {
		fmt.Fprintf(&b, "%s %s\n", n.Kind, n)
	}
	golden(t, "full.unused", b.String())
}

// What is shown, written as a file, is the same configuration but for the
// secrets.
func TestShownConfigurationReadsBack(t *testing.T) {
	m := full(t)
	c, _, err := m.Load(confPath)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bytes.NewReader(shown))
	dec.UseNumber()
	var tree map[string]any
	if err := dec.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	dropNull(tree)
	var file strings.Builder
	if err := toml.NewEncoder(&file).Encode(tree); err != nil {
		t.Fatal(err)
	}
	read := m.ReadFile
	m.ReadFile = func(path string) ([]byte, error) {
		if path == confPath {
			return []byte(file.String()), nil
		}
		return read(path)
	}
	again, report, err := m.Load(confPath)
	if err != nil {
		t.Fatalf("%v\nfile:\n%s", err, file.String())
	}
	if len(report.Warnings) > 0 {
		t.Errorf("warnings: %v", report.Warnings)
	}
	got, err := json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(shown), string(got)); diff != "" {
		t.Errorf("not the same (-first +again):\n%s", diff)
	}
}

// dropNull removes what TOML cannot say.
func dropNull(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == nil {
				delete(v, k)
			}
			dropNull(e)
		}
	case []any:
		for _, e := range v {
			dropNull(e)
		}
	}
}

func TestSecretsNeverPrint(t *testing.T) {
	c, _, err := full(t).Load(confPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		for _, v := range []any{c, *c, c.Etcd, *c.Redis} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, "hush") {
				t.Errorf("%s shows a secret: %s", verb, s)
			}
		}
	}
}

func TestManyErrorsTogether(t *testing.T) {
	c, _, err := load(readTestdata(t, "bad.toml"), nil)
	if err == nil || c != nil {
		t.Fatalf("Load = %v, %v; want only an error", c, err)
	}
	if !errors.Is(err, apis.ErrInvalid) {
		t.Error("not of class ErrInvalid")
	}
	if ke, ok := errors.AsType[*KeyError](err); !ok || ke.Line == 0 {
		t.Errorf("no KeyError with a line in %v", err)
	}
	if strings.Contains(err.Error(), "12345") {
		t.Error("the value of a secret is shown")
	}
	for _, word := range []string{"interface", "int64", "map[", "config.", "reflect", "<nil>"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("the errors speak Go: %q", word)
		}
	}
	golden(t, "bad.err", err.Error()+"\n")
}

func TestOldFileWarnings(t *testing.T) {
	c, report := mustLoad(t, readTestdata(t, "old.toml"), nil)
	var b strings.Builder
	for _, n := range report.Warnings {
		fmt.Fprintf(&b, "%s %s\n", n.Kind, n)
	}
	golden(t, "old.warnings", b.String())
	if got := c.Agent.InitialResourceGroupName; got != "default" {
		t.Errorf("scaling-group read as %q", got)
	}
	if got := (PortRange{31000, 32000}); c.Container.PortRange != got {
		t.Errorf("port-range = %v, want %v: the first spelling counts", c.Container.PortRange, got)
	}
	if got := c.Agent.RPCListenAddr; got != (HostPort{"", 6001}) {
		t.Errorf("rpc-listen-addr = %v: a blank host means detection", got)
	}
}

func TestOrigins(t *testing.T) {
	_, report := mustLoad(t, minimal+"addr = '1.2.3.4:2379'\n", map[string]string{"BACKEND_NAMESPACE": "x", "BACKEND_AGENT_PORT": "7000"})
	for key, want := range map[string]string{
		"etcd.addr":             "agent.toml:6",
		"etcd.namespace":        "environment BACKEND_NAMESPACE",
		"agent.backend":         "agent.toml:2",
		"agent.rpc-listen-addr": "environment BACKEND_AGENT_PORT",
		"container.port-range":  "default",
		"no.such-key":           "default",
	} {
		if got := report.Origin(key).String(); got != want {
			t.Errorf("origin of %s = %q, want %q", key, got, want)
		}
	}
	_, report = mustLoad(t, minimal[:len("[agent]\n")]+"rpc-listen-addr = '10.0.0.1:1'\n"+minimal[len("[agent]\n"):], map[string]string{"BACKEND_AGENT_PORT": "7000"})
	if got, want := report.Origin("agent.rpc-listen-addr").String(), "agent.toml:2 + environment BACKEND_AGENT_PORT"; got != want {
		t.Errorf("origin = %q, want %q", got, want)
	}
}

func TestDerivedPaths(t *testing.T) {
	c, _ := mustLoad(t, minimal, nil)
	got := []Path{c.Agent.VarBasePath, c.Agentd.StateDir, c.Agentd.AdminSocket, c.Container.ScratchRoot}
	want := []Path{"/srv/var/lib/backend.ai", "/srv/var/lib/backend.ai", "/srv/var/lib/backend.ai/agentd.sock", "/srv/scratches"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	c, _ = mustLoad(t, minimal+"[agentd]\nstate_dir = '~/s'\n", nil)
	if c.Agentd.AdminSocket != "/home/op/s/agentd.sock" {
		t.Errorf("admin-socket = %q, want it in state-dir", c.Agentd.AdminSocket)
	}
}

// One case is a change to the minimal file and the errors it must give.
func TestRules(t *testing.T) {
	const p = confPath
	cases := []struct {
		name string
		src  string
		edit func(*Machine)
		want []string
	}{
		{"not TOML", "[agent]\nbackend = docker\n", nil, []string{p + `:2: agent.backend: not valid TOML: expected value but found "docker" instead`}},
		{"not TOML, secret", "[etcd]\npassword = hunter2\n", nil, []string{p + `:2: etcd.password: not valid TOML: the value cannot be read; write it in quotes`}},
		{"no tables", "", nil, []string{
			p + ": etcd: the table [etcd] is missing: expected the namespace and addr of the manager's etcd, or [manager] enabled = false for a node on its own",
			p + `: agent: the table [agent] is missing: expected at least backend = "docker"`,
			p + ": container: the table [container] is missing; it may be empty",
			p + ": resource: the table [resource] is missing; it may be empty",
		}},
		{"stand-alone", "[manager]\nenabled = false\n[agent]\nbackend = 'docker'\n[container]\n[resource]\n", nil, nil},
		{"no backend", "[agent]\n[container]\n[resource]\n[etcd]\n", nil, []string{p + `:1: agent.backend: is missing: expected "docker", "kubernetes" or "dummy"`}},
		{"old backend name", "[agent]\nmode = 'k8s'\n[container]\n[resource]\n[etcd]\n", nil, nil},
		{"not a table", "agent = 1\ncontainer = {}\nresource = {}\netcd = {}\n", nil, []string{p + ":1: agent: expected a table [agent], found the integer 1"}},
		{"cgroup needs root", minimal + "[container.x]\n", func(m *Machine) { m.UID = 1000 }, nil},
		{
			"root rules", "[agent]\nbackend='docker'\n[resource]\n[etcd]\n[container]\nstats-type='cgroup'\nscratch_type='hostfile'\nsandbox-type='jail'\n",
			func(m *Machine) { m.UID, m.Arch = 1000, "arm64" },
			[]string{
				p + ":6: container.stats-type: Cannot use cgroup statistics collection mode unless the agent runs as root.",
				p + ":7: container.scratch_type: Cannot use hostfile scratch type unless the agent runs as root.",
				p + ":8: container.sandbox-type: Jail sandbox is not supported on architecture aarch64",
			},
		},
		{
			"k8s-nfs", "[agent]\nbackend='kubernetes'\n[resource]\n[etcd]\n[container]\nscratch-type='k8s-nfs'\nscratch-nfs-address='x'\n", nil,
			[]string{p + ":6: container.scratch-type: scratch-nfs-address and scratch-nfs-options are required for k8s-nfs"},
		},
		{
			"link-local IPv6", "[container]\n[resource]\n[etcd]\n[agent]\nbackend='docker'\nrpc-listen-addr='[fe80::1%eth0]:6001'\n", nil,
			[]string{p + ":6: agent.rpc-listen-addr: Cannot use link-local IP address as the RPC listening host."},
		},
		{"unspecified address is fine", "[container]\n[resource]\n[etcd]\n[agent]\nbackend='docker'\nrpc-listen-addr='[::]:6001'\n", nil, nil},
		{
			"ssl without files", "[container]\n[resource]\n[etcd]\n[agent]\nbackend='docker'\nssl-enabled=true\n", nil,
			[]string{p + ":6: agent.ssl-enabled: needs agent.ssl-cert and agent.ssl-key too"},
		},
		{
			"directory as file", "[container]\n[resource]\n[etcd]\n[agent]\nbackend='docker'\nssl-cert='/etc'\n", nil,
			[]string{p + ":6: agent.ssl-cert: expected the path of an existing file: /etc is not a regular file"},
		},
		{
			"pyroscope", minimal + "[pyroscope]\nenabled=true\n", nil,
			[]string{p + ":7: pyroscope.enabled: needs pyroscope.app-name and pyroscope.server-addr and pyroscope.sample-rate too"},
		},
		{"redis without address", minimal + "[redis]\npassword='x'\n", nil, []string{p + ":6: redis: expected addr or sentinel in this table"}},
		{
			"driver without section", minimal + "[logging]\ndrivers=['logstash']\n", nil,
			[]string{p + ":7: logging.drivers: logstash driver is activated but no config given. Add a table [logging.logstash] or remove it from the list"},
		},
		{"log file section incomplete", minimal + "[logging.file]\npath='x'\n", nil, []string{p + ":6: logging.file.filename: is missing: expected a text"}},
		{"rotation-size default", minimal + "[logging.file]\npath='x'\nfilename='y'\n", nil, nil},
		{
			"coredump on another system", minimal + "[debug.coredump]\nenabled=true\n", func(m *Machine) { m.OS = "darwin" },
			[]string{p + ":7: debug.coredump.enabled: Storing container coredumps is only supported in Linux."},
		},
		{"coredump into a pipe", minimal + "[debug.coredump]\nenabled=true\n", func(m *Machine) {
			m.ReadFile = func(f string) ([]byte, error) {
				if f == p {
					return []byte(minimal + "[debug.coredump]\nenabled=true\n"), nil
				}
				return []byte("|/usr/lib/systemd/systemd-coredump\n"), nil
			}
		}, []string{p + `:7: debug.coredump.enabled: /proc/sys/kernel/core_pattern must be an absolute path to enable container coredumps. It is "|/usr/lib/systemd/systemd-coredump"`}},
		{
			"long socket", minimal + "[agentd]\nstate-dir='/" + strings.Repeat("x", 100) + "'\n", nil,
			[]string{p + `: agentd.admin-socket: the path of the socket, "/` + strings.Repeat("x", 100) + `/agentd.sock", is 113 bytes long; at most 107 are possible: set agentd.admin-socket to a shorter one`},
		},
		{
			"no home", minimal + "[agentd]\nstate-dir='~/x'\n", func(m *Machine) { m.Home = "" },
			[]string{p + `:7: agentd.state-dir: "~" cannot be resolved: there is no home directory; write the path in full`},
		},
		{
			"another's home", minimal + "[agentd]\nstate-dir='~joe/x'\n", nil,
			[]string{p + `:7: agentd.state-dir: "~joe/x": only "~" and "~/…" are understood; write the path in full`},
		},
		{"array bomb", "a = " + strings.Repeat("[", 10_000), nil, []string{p + ":1: nested too deeply: more than 64 levels"}},
		{
			"endpoint", minimal + "[[service-discovery.endpoints]]\nrole='x'\nscope='y'\naddress='z'\nport=0\nprotocol='t'\n", nil,
			[]string{p + ":10: service-discovery.endpoints[0].port: expected a whole number, from 1 to 65535, found the integer 0"},
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			m := machine(map[string]string{confPath: tc.src}, nil)
			if tc.edit != nil {
				tc.edit(m)
			}
			_, _, err := m.Load(confPath)
			if diff := cmp.Diff(tc.want, lines(err)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func TestFileItself(t *testing.T) {
	m := machine(map[string]string{"/etc/a/agent.toml": strings.Repeat("#", maxFileSize+1)}, nil)
	for path, want := range map[string]string{
		"/etc/a/agent.toml": "/etc/a/agent.toml: 1048577 bytes is too large for a configuration; at most 1048576 are read",
		"/etc/a":            "/etc/a: not a regular file; name an agent.toml",
		"/etc/b":            "configuration file: open etc/b: file does not exist",
	} {
		if _, report, err := m.Load(path); err == nil || err.Error() != want || report.Path != path {
			t.Errorf("Load(%s) = %v, want %s", path, err, want)
		}
	}
}

func TestAdvice(t *testing.T) {
	cases := []struct{ name, src, want string }{
		{
			"half of CURVE", "[container]\n[resource]\n[etcd]\n[agent]\nbackend='docker'\nrpc-auth-agent-keypair='" + confPath + "'\n",
			"advice line 6: agent.rpc-auth-agent-keypair: has no effect alone: calls are encrypted only when rpc-auth-manager-public-key and rpc-auth-agent-keypair are both set",
		},
		{
			"process-wide key in an agent", minimal + "[[agents]]\nagent={id='a',backend='docker'}\n[[agents]]\nagent={id='b'}\n",
			"unknown line 7: agents[0].agent.backend: is ignored: this key holds for the whole process; set it in the common table",
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			_, report := mustLoad(t, tc.src, nil)
			if len(report.Warnings) != 1 {
				t.Fatalf("warnings = %v, want one", report.Warnings)
			}
			w := report.Warnings[0]
			if got := string(w.Kind) + " " + w.String(); got != tc.want {
				t.Errorf("warning %q, want %q", got, tc.want)
			}
		})
	}
}
