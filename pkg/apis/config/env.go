// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"strings"
)

// override puts the text of an environment variable in place of a key.
type override struct {
	env   string
	table string // dotted
	key   string
	// names are other names of the key.
	names []string
	// onlyIn says that an absent table is not made for this key.
	onlyIn bool
}

// overrides are the variables that replace one key each.
var overrides = []override{
	{env: "BACKEND_NAMESPACE", table: "etcd", key: "namespace"},
	{env: "BACKEND_ETCD_ADDR", table: "etcd", key: "addr"},
	{env: "BACKEND_ETCD_USER", table: "etcd", key: "user"},
	{env: "BACKEND_ETCD_PASSWORD", table: "etcd", key: "password"},
	{env: "BACKEND_PID_FILE", table: "agent", key: "pid-file"},
	{env: "BACKEND_CONTAINER_PORT_RANGE", table: "container", key: "port-range"},
	// The older name first: the newer one wins when both are set.
	{env: "BACKEND_KERNEL_HOST_OVERRIDE", table: "container", key: "bind-host", names: []string{"kernel-host"}},
	{env: "BACKEND_BIND_HOST_OVERRIDE", table: "container", key: "bind-host", names: []string{"kernel-host"}},
	{env: "BACKEND_SANDBOX_TYPE", table: "container", key: "sandbox-type"},
	{env: "BACKEND_SCRATCH_ROOT", table: "container", key: "scratch-root"},
	{env: "BACKEND_LOG_FILE_COUNT", table: "logging.file", key: "backup-count", onlyIn: true},
}

// addressOverrides are the variables that replace one part of an address.
var addressOverrides = []struct {
	env    string
	table  string
	key    string
	part   string
	onlyIn bool
}{
	{env: "BACKEND_AGENT_HOST_OVERRIDE", table: "agent", key: "rpc-listen-addr", part: "host"},
	{env: "BACKEND_AGENT_PORT", table: "agent", key: "rpc-listen-addr", part: "port"},
	// Without a table [watcher] there is no companion service to configure.
	{env: "BACKEND_WATCHER_SERVICE_IP", table: "watcher", key: "service-addr", part: "host", onlyIn: true},
	{env: "BACKEND_WATCHER_SERVICE_PORT", table: "watcher", key: "service-addr", part: "port", onlyIn: true},
}

// applyEnv puts the environment over the file. Values stay texts; they are
// judged later like those of the file.
func applyEnv(root *node, env func(string) string) {
	applyLogFile(root, env)
	for _, o := range overrides {
		if v := env(o.env); v != "" {
			if t := openTable(root, o.table, o.env, !o.onlyIn); t != nil {
				put(t, o.env, o.table, o.key, o.names, v)
			}
		}
	}
	for _, o := range addressOverrides {
		v := env(o.env)
		if v == "" {
			continue
		}
		t := openTable(root, o.table, o.env, !o.onlyIn)
		if t == nil {
			continue
		}
		addr := lookup(t, o.key)
		parts := map[string]*node{}
		switch {
		case addr == nil:
			addr = &node{name: o.key, path: o.table + "." + o.key}
			t.table()[o.key] = addr
		case addr.table() != nil:
			maps.Copy(parts, addr.table())
		default:
			var h HostPort
			if h.decode(addr, nil) != nil {
				continue // stays, to be reported as it stands in the file
			}
			parts["host"] = &node{value: h.Host}
			parts["port"] = &node{value: int64(h.Port)}
		}
		parts[o.part] = &node{value: v}
		addr.value, addr.env = parts, o.env
	}
}

// applyLogFile applies the two variables of the log file that are not a plain
// replacement of one key.
func applyLogFile(root *node, env func(string) string) {
	const table = "logging.file"
	if name, v := "BACKEND_LOG_FILE", env("BACKEND_LOG_FILE"); v != "" {
		if t := openTable(root, table, name, true); t != nil {
			dir, file := ".", v
			if i := strings.LastIndexByte(v, '/'); i >= 0 {
				dir, file = v[:max(i, 1)], v[i+1:]
			}
			put(t, name, table, "path", nil, dir)
			put(t, name, table, "filename", nil, file)
		}
	}
	if name, v := "BACKEND_LOG_FILE_SIZE", env("BACKEND_LOG_FILE_SIZE"); v != "" {
		if t := openTable(root, table, name, false); t != nil {
			if strings.Trim(v, "0123456789") == "" {
				v += "MiB" // a bare number counts MiB
			}
			put(t, name, table, "rotation-size", nil, v)
		}
	}
}

// openTable returns the table with a dotted name, making it on demand. It is
// nil when the table is absent, or when the file has something else there.
func openTable(root *node, dotted, env string, create bool) *node {
	t := root
	for name := range strings.SplitSeq(dotted, ".") {
		next := lookup(t, name)
		if next == nil {
			if !create {
				return nil
			}
			next = &node{name: name, path: join(t.path, name), env: env, value: map[string]*node{}}
			t.table()[name] = next
		}
		if next.table() == nil {
			return nil
		}
		t = next
	}
	return t
}

// lookup returns a key of a table under either of its spellings.
func lookup(t *node, key string) *node {
	if n := t.table()[key]; n != nil {
		return n
	}
	return t.table()[strings.ReplaceAll(key, "-", "_")]
}

// put sets a key and removes its other spellings.
func put(t *node, env, table, key string, names []string, value string) {
	keys := t.table()
	for k := range keys {
		for _, name := range append([]string{key}, names...) {
			if kebab(k) == name {
				delete(keys, k)
			}
		}
	}
	keys[key] = &node{name: key, path: table + "." + key, env: env, value: value}
}

// kebab returns the kebab-case spelling of a key.
func kebab(key string) string { return strings.ReplaceAll(key, "_", "-") }
