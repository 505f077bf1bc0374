// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"
)

// maxSocketPath is the longest path of a unix socket on Linux, in bytes.
const maxSocketPath = 107

// at returns the node of a key in either spelling; nil when it is not set.
func at(root *node, keys ...string) *node {
	n := root
	for _, k := range keys {
		if n = lookup(n, k); n == nil {
			return nil
		}
	}
	return n
}

// reject records an error about a key that may have its default value.
func (b *binder) reject(root *node, text string, keys ...string) {
	if n := at(root, keys...); n != nil {
		b.fail(n, text)
		return
	}
	b.errs = append(b.errs, &KeyError{File: b.file, Key: strings.Join(keys, "."), Text: text})
}

// validate checks what takes more than one value, or the machine, to judge.
func (b *binder) validate(root *node) {
	c := b.root
	for _, t := range []string{"etcd", "agent", "container", "resource"} {
		if at(root, t) != nil || (t == "etcd" && !c.Manager.Enabled) {
			continue
		}
		text := "the table [" + t + "] is missing; it may be empty"
		switch t {
		case "etcd":
			text = "the table [etcd] is missing: expected the namespace and addr of the manager's etcd, or [manager] enabled = false for a node on its own"
		case "agent":
			text = `the table [agent] is missing: expected at least backend = "docker"`
		}
		b.missing(nil, t, text)
	}
	if c.Agent.Backend == "" && at(root, "agent").table() != nil && !b.failed("agent.backend", "agent.mode") {
		b.missing(at(root, "agent"), "backend", "is missing: expected "+new(Backend).expects())
	}
	if len(c.Agentd.AdminSocket) > maxSocketPath {
		b.reject(root, fmt.Sprintf("the path of the socket, %q, is %d bytes long; at most %d are possible: set agentd.admin-socket to a shorter one",
			c.Agentd.AdminSocket, len(c.Agentd.AdminSocket), maxSocketPath), "agentd", "admin-socket")
	}
	b.validateAgent(root)
	b.validateNode(&c.Agent.AgentNode, &c.Container.ContainerNode, root)
	b.validateContainer(root)
	b.validateAllocations(root)
	b.validateAgents(root)
	b.validateLogging(root)
	b.validateServices(root)
	b.validateCoredump(root)
}

// failed tells that an error about one of the keys is recorded already.
func (b *binder) failed(keys ...string) bool {
	for _, e := range b.errs {
		if slices.Contains(keys, e.Key) {
			return true
		}
	}
	return false
}

func (b *binder) validateAgent(root *node) {
	a := &b.root.Agent
	if ip, err := netip.ParseAddr(a.RPCListenAddr.Host); err == nil && ip.IsLinkLocalUnicast() {
		b.reject(root, "Cannot use link-local IP address as the RPC listening host.", "agent", "rpc-listen-addr")
	}
	if a.SSLEnabled {
		b.needs(root, "agent", "ssl-enabled", need{"ssl-cert", a.SSLCert != ""}, need{"ssl-key", a.SSLKey != ""})
	}
	if (a.RPCAuthAgentKeypair == "") != (a.RPCAuthManagerPublicKey == "") {
		for _, k := range []string{"rpc-auth-manager-public-key", "rpc-auth-agent-keypair"} {
			if n := at(root, "agent", k); n != nil && n.value != "" {
				b.warn(Advice, n, "has no effect alone: calls are encrypted only when rpc-auth-manager-public-key and rpc-auth-agent-keypair are both set")
			}
		}
	}
	if s := a.MountPathUIDGID; s != "" {
		uid, gid, ok := strings.Cut(s, ":")
		if !ok || !digits(uid) || !digits(gid) {
			b.reject(root, fmt.Sprintf(`expected "uid:gid" with two numbers, found the text %q`, clip(s)), "agent", "mount-path-uid-gid")
		}
	}
}

// need is a key that another key of its table calls for.
type need struct {
	key string
	met bool
}

// needs records the keys of a table that another key of it calls for in vain.
func (b *binder) needs(root *node, table, because string, list ...need) {
	var lacking []string
	for _, n := range list {
		if !n.met {
			lacking = append(lacking, table+"."+n.key)
		}
	}
	if len(lacking) > 0 {
		b.reject(root, "needs "+strings.Join(lacking, " and ")+" too", table, because)
	}
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// validateNode checks the keys that an entry of [[agents]] may override. n has
// them under agent and container: the whole file, or the entry. What an entry
// inherits has been judged in the common tables.
func (b *binder) validateNode(a *AgentNode, c *ContainerNode, n *node) {
	reject := func(text string, keys ...string) {
		if n.path == "" || at(n, keys...) != nil {
			b.reject(n, text, keys...)
		}
	}
	if bad := strings.IndexFunc(a.ID, func(r rune) bool {
		return r == '/' || unicode.IsSpace(r) || !unicode.IsPrint(r)
	}); bad >= 0 {
		reject(fmt.Sprintf("expected a name without spaces, slashes and control characters, found the text %q", clip(a.ID)), "agent", "id")
	}
	if c.StatsType == StatsCgroup && b.m.UID != 0 {
		reject("Cannot use cgroup statistics collection mode unless the agent runs as root.", "container", "stats-type")
	}
	if c.ScratchType == ScratchHostFile && b.m.UID != 0 {
		reject("Cannot use hostfile scratch type unless the agent runs as root.", "container", "scratch-type")
	}
	if c.SandboxType == SandboxJail && b.m.Arch != "amd64" {
		reject("Jail sandbox is not supported on architecture "+machineName(b.m.Arch), "container", "sandbox-type")
	}
	if c.ScratchType == ScratchK8sNFS && b.root.Agent.Backend == BackendKubernetes &&
		(c.ScratchNFSAddress == "" || c.ScratchNFSOptions == "") {
		reject("scratch-nfs-address and scratch-nfs-options are required for k8s-nfs", "container", "scratch-type")
	}
}

// machineName returns the name of an architecture as the kernel spells it.
func machineName(goarch string) string {
	switch goarch {
	case "arm64":
		return "aarch64"
	case "386":
		return "i686"
	}
	return goarch
}

func (b *binder) validateContainer(root *node) {
	host := b.root.Container.BindHost
	if host == "" {
		return
	}
	if _, err := netip.ParseAddr(host); err != nil {
		keys := []string{"container", "bind-host"}
		if at(root, keys...) == nil {
			keys[1] = "kernel-host"
		}
		b.reject(root, fmt.Sprintf(`expected an IP address of this node such as "127.0.0.1", or "" for 127.0.0.1, found the text %q`, clip(host)), keys...)
	}
}

func (b *binder) validateLogging(root *node) {
	l := &b.root.Logging
	have := map[string]bool{"console": true, "file": l.File != nil, "logstash": l.Logstash != nil, "graylog": l.Graylog != nil}
	for _, d := range l.Drivers {
		if ok, known := have[d]; known && !ok {
			b.reject(root, fmt.Sprintf("%s driver is activated but no config given. Add a table [logging.%s] or remove it from the list", d, d), "logging", "drivers")
		}
	}
	if l.File != nil && strings.ContainsRune(l.File.Filename, '/') {
		b.reject(root, fmt.Sprintf("expected the name of a file in logging.file.path, without slashes, found the text %q", clip(l.File.Filename)), "logging", "file", "filename")
	}
}

func (b *binder) validateServices(root *node) {
	c := b.root
	if r := c.Redis; r != nil && r.Addr == nil && len(r.Sentinel) == 0 && !b.failed("redis.addr", "redis.sentinel") {
		b.reject(root, "expected addr or sentinel in this table", "redis")
	}
	if p := c.Pyroscope; p.Enabled {
		b.needs(root, "pyroscope", "enabled",
			need{"app-name", p.AppName != ""}, need{"server-addr", p.ServerAddr != ""}, need{"sample-rate", p.SampleRate != 0})
	}
	if w := c.Watcher; w != nil && w.SSLEnabled {
		b.needs(root, "watcher", "ssl-enabled", need{"ssl-cert", w.SSLCert != ""}, need{"ssl-key", w.SSLKey != ""})
	}
}

func (b *binder) validateCoredump(root *node) {
	if !b.root.Debug.Coredump.Enabled {
		return
	}
	const patternFile = "/proc/sys/kernel/core_pattern"
	text := ""
	if b.m.OS != "linux" {
		text = "Storing container coredumps is only supported in Linux."
	} else if pattern, err := b.m.ReadFile(patternFile); err != nil {
		text = fmt.Sprintf("the kernel's core pattern cannot be read: %v", err)
	} else if !strings.HasPrefix(string(pattern), "/") {
		text = fmt.Sprintf("%s must be an absolute path to enable container coredumps. It is %q", patternFile, clip(strings.TrimSpace(string(pattern))))
	}
	if text != "" {
		b.reject(root, text, "debug", "coredump", "enabled")
	}
}
