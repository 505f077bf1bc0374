// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironment(t *testing.T) {
	const file = `
[etcd]
namespace = "file"
addr = "file:2379"
[agent]
backend = "docker"
rpc_listen_addr = "10.0.0.1:6001"
pid-file = "/file.pid"
[container]
kernel-host = "10.0.0.2"
port_range = [1000, 2000]
[resource]
[logging.file]
path = "/file"
filename = "file.log"
[watcher]
service-addr = {host = "127.0.0.1", port = 6009}
`
	cases := []struct {
		env  map[string]string
		get  func(*Config) any
		want string
	}{
		{map[string]string{"BACKEND_NAMESPACE": "env"}, func(c *Config) any { return c.Etcd.Namespace }, "env"},
		{map[string]string{"BACKEND_ETCD_ADDR": "env:1"}, func(c *Config) any { return c.Etcd.Addr }, "[env:1]"},
		{map[string]string{"BACKEND_ETCD_USER": "u", "BACKEND_ETCD_PASSWORD": "p"}, func(c *Config) any { return c.Etcd.User + c.Etcd.Password.Reveal() }, "up"},
		{map[string]string{"BACKEND_AGENT_HOST_OVERRIDE": "env"}, func(c *Config) any { return c.Agent.RPCListenAddr }, "env:6001"},
		{map[string]string{"BACKEND_AGENT_PORT": "7000"}, func(c *Config) any { return c.Agent.RPCListenAddr }, "10.0.0.1:7000"},
		{map[string]string{"BACKEND_AGENT_PORT": "7000", "BACKEND_AGENT_HOST_OVERRIDE": "::1"}, func(c *Config) any { return c.Agent.RPCListenAddr }, "[::1]:7000"},
		{map[string]string{"BACKEND_PID_FILE": "env.pid"}, func(c *Config) any { return c.Agent.PIDFile }, "/srv/env.pid"},
		{map[string]string{"BACKEND_CONTAINER_PORT_RANGE": "30000-31000"}, func(c *Config) any { return c.Container.PortRange }, "30000-31000"},
		{map[string]string{"BACKEND_CONTAINER_PORT_RANGE": "30000,31000"}, func(c *Config) any { return c.Container.PortRange }, "30000-31000"},
		{map[string]string{"BACKEND_BIND_HOST_OVERRIDE": "10.9.9.9"}, func(c *Config) any { return c.Container.BindHost }, "10.9.9.9"},
		{map[string]string{"BACKEND_KERNEL_HOST_OVERRIDE": "10.9.9.8"}, func(c *Config) any { return c.Container.BindHost }, "10.9.9.8"},
		{map[string]string{"BACKEND_KERNEL_HOST_OVERRIDE": "10.9.9.8", "BACKEND_BIND_HOST_OVERRIDE": "10.9.9.9"}, func(c *Config) any { return c.Container.BindHost }, "10.9.9.9"},
		{map[string]string{"BACKEND_SANDBOX_TYPE": "jail"}, func(c *Config) any { return c.Container.SandboxType }, "jail"},
		{map[string]string{"BACKEND_SCRATCH_ROOT": "/env"}, func(c *Config) any { return c.Container.ScratchRoot }, "/env"},
		{map[string]string{"BACKEND_LOG_FILE": "/var/log/x/a.log"}, func(c *Config) any { return *c.Logging.File }, "{/var/log/x a.log 5 10MB verbose}"},
		{map[string]string{"BACKEND_LOG_FILE": "a.log"}, func(c *Config) any { return *c.Logging.File }, "{/srv a.log 5 10MB verbose}"},
		{map[string]string{"BACKEND_LOG_FILE": "/a.log"}, func(c *Config) any { return *c.Logging.File }, "{/ a.log 5 10MB verbose}"},
		{map[string]string{"BACKEND_LOG_FILE_COUNT": "9", "BACKEND_LOG_FILE_SIZE": "20"}, func(c *Config) any { return *c.Logging.File }, "{/file file.log 9 20MiB verbose}"},
		{map[string]string{"BACKEND_LOG_FILE_SIZE": "20MB"}, func(c *Config) any { return c.Logging.File.RotationSize }, "20MB"},
		{map[string]string{"BACKEND_WATCHER_SERVICE_IP": "10.0.0.3", "BACKEND_WATCHER_SERVICE_PORT": "7009"}, func(c *Config) any { return c.Watcher.ServiceAddr }, "10.0.0.3:7009"},
	}
	for _, tc := range cases {
		t.Run(fmt.Sprint(tc.env), func(t *testing.T) {
			c, report := mustLoad(t, file, tc.env)
			if got := fmt.Sprint(tc.get(c)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			for _, w := range report.Warnings {
				if w.Kind == Shadowed {
					t.Errorf("an overridden key is no mistake: %s", w)
				}
			}
		})
	}
}

func TestEnvironmentMakesTables(t *testing.T) {
	c, _ := mustLoad(t, "[agent]\nbackend='docker'\n[resource]\n", map[string]string{
		"BACKEND_ETCD_ADDR": "e:1", "BACKEND_SCRATCH_ROOT": "/s", "BACKEND_AGENT_HOST_OVERRIDE": "h",
		"BACKEND_LOG_FILE": "/l/f", "BACKEND_WATCHER_SERVICE_PORT": "1",
	})
	got := fmt.Sprintln(c.Etcd.Addr, c.Container.ScratchRoot, c.Agent.RPCListenAddr, c.Logging.File.Filename, c.Watcher)
	if want := "[e:1] /s h:6001 f <nil>\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c, _ = mustLoad(t, minimal, map[string]string{"BACKEND_LOG_FILE_COUNT": "9", "BACKEND_LOG_FILE_SIZE": "9"})
	if c.Logging.File != nil {
		t.Error("a file section was made out of nothing")
	}
}

func TestEnvironmentErrorsNameTheVariable(t *testing.T) {
	_, _, err := load(minimal+"[logging.file]\npath='/x'\nfilename='y'\n", map[string]string{
		"BACKEND_AGENT_PORT":           "ssh",
		"BACKEND_CONTAINER_PORT_RANGE": "30000",
		"BACKEND_SANDBOX_TYPE":         "vm",
		"BACKEND_LOG_FILE_COUNT":       "many",
		"BACKEND_LOG_FILE_SIZE":        "big",
		"BACKEND_BIND_HOST_OVERRIDE":   "eth0",
	})
	want := []string{
		`environment BACKEND_AGENT_PORT: agent.rpc-listen-addr: the port must be a number from 1 to 65535, not "ssh"`,
		`environment BACKEND_CONTAINER_PORT_RANGE: container.port-range: port_range must be a tuple of two integers: expected a range of ports such as [30000, 31000] or "30000-31000", found the text "30000"`,
		`environment BACKEND_SANDBOX_TYPE: container.sandbox-type: expected "docker" or "jail", found the text "vm"`,
		`environment BACKEND_LOG_FILE_COUNT: logging.file.backup-count: expected a whole number, from 1 to 100, found the text "many"`,
		`environment BACKEND_LOG_FILE_SIZE: logging.file.rotation-size: expected a size such as "10MB" or "10MiB" or a number of bytes, more than 0, found the text "big"`,
		`environment BACKEND_BIND_HOST_OVERRIDE: container.bind-host: expected an IP address of this node such as "127.0.0.1", or "" for 127.0.0.1, found the text "eth0"`,
	}
	got := map[string]bool{}
	for _, l := range lines(err) {
		got[l] = true
	}
	for _, w := range want {
		if !got[w] {
			t.Errorf("no error %q in\n%v", w, err)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d errors, want %d:\n%v", len(got), len(want), err)
	}
}

func TestBrokenFileUnderEnvironment(t *testing.T) {
	_, _, err := load("etcd = 1\n[agent]\nbackend='docker'\nrpc-listen-addr = 'x'\n[container]\n[resource]\n",
		map[string]string{"BACKEND_NAMESPACE": "x", "BACKEND_AGENT_PORT": "1"})
	want := []string{
		confPath + ":1: etcd: expected a table [etcd], found the integer 1",
		confPath + `:4: agent.rpc-listen-addr: expected an address such as "127.0.0.1:6001", ["127.0.0.1", 6001] or {host = "127.0.0.1", port = 6001}, found the text "x"`,
	}
	if diff := cmp.Diff(want, lines(err)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}
