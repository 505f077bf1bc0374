// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readAs writes value behind a key and reads it as a T; the result is the text
// of the value, or "error: …" as the operator sees it.
func readAs[T any](t *testing.T, value string, show func(T) string) string {
	t.Helper()
	root, err := parse("f", "k = "+value)
	if err != nil {
		t.Fatalf("k = %s: %v", value, err)
	}
	m := machine(nil, nil)
	m.UID, m.GID = 7, 8
	var v T
	d, ok := any(&v).(decoder)
	if !ok {
		t.Fatalf("%T does not read itself", v)
	}
	n := root.table()["k"]
	if err := d.decode(n, m); err != nil {
		if mm, ok := errors.AsType[*mismatchError](err); ok {
			return "error: " + mm.prefix + "mismatch"
		}
		return "error: " + err.Error()
	}
	return show(v)
}

func checkValues[T any](t *testing.T, show func(T) string, cases [][2]string) {
	t.Helper()
	for _, tc := range cases {
		if got := readAs(t, tc[0], show); got != tc[1] {
			t.Errorf("k = %s is %q, want %q", tc[0], got, tc[1])
		}
	}
}

func TestSize(t *testing.T) {
	checkValues(t, func(v Size) string { return fmt.Sprint(int64(v)) }, [][2]string{
		{`0`, "0"},
		{`1073741824`, "1073741824"},
		{`-5`, "-5"},
		{`1e6`, "1000000"},
		{`"10"`, "10"},
		{`"10M"`, "10485760"},
		{`"10m"`, "10485760"},
		{`"10 MB"`, "10485760"},
		{`"10MiB"`, "10485760"},
		{`"10 mibytes"`, "10485760"},
		{`"10MByte"`, "10485760"},
		{`"100 bytes"`, "100"},
		{`"1.5k"`, "1536"},
		{`"1_000k"`, "1024000"},
		{`"2t"`, "2199023255552"},
		{`"7e"`, "8070450532247928832"},
		{`"0.5e"`, "576460752303423488"},
		{`"8e"`, "error: larger than 8 EiB"},
		{`"1y"`, "error: larger than 8 EiB"},
		{`"0.0000000000000000000001y"`, "error: not a whole number of bytes"},
		{`"1.5"`, "error: not a whole number of bytes"},
		{`1.5`, "error: not a whole number of bytes"},
		{`"1.3k"`, "error: not a whole number of bytes"},
		{`"inf"`, "error: an infinite size has no meaning here"},
		{`"-Infinity"`, "error: an infinite size has no meaning here"},
		{`inf`, "error: an infinite size has no meaning here"},
		{`1e300`, "error: larger than 8 EiB"},
		{`nan`, "error: not a whole number of bytes"},
		{`""`, "error: mismatch"},
		{`"k"`, "error: mismatch"},
		{`"5ib"`, "error: mismatch"},
		{`"1.2.3k"`, "error: mismatch"},
		{`"1e3k"`, "error: mismatch"},
		{`"1/2"`, "error: mismatch"},
		{`"0x10"`, "error: mismatch"},
		{`"` + strings.Repeat("9", 100) + `"`, "error: mismatch"},
		{`true`, "error: mismatch"},
		{`[10, "M"]`, "error: mismatch"},
		{`{a = 1}`, "error: mismatch"},
		{`2026-01-01`, "error: mismatch"},
	})
}

func TestSizeText(t *testing.T) {
	for size, want := range map[Size]string{0: "0", 1: "1", 1023: "1023", 1024: "1K", 1536: "1536", 1 << 20: "1M", 3 << 40: "3T", 1 << 60: "1E", -2048: "-2K"} {
		if got := size.String(); got != want {
			t.Errorf("%d is shown as %q, want %q", int64(size), got, want)
		}
		if back, err := ParseSize(size.String()); err != nil || back != size {
			t.Errorf("%q reads back as %d, %v; want %d", size, back, err, int64(size))
		}
	}
}

func TestDecimalSize(t *testing.T) {
	checkValues(t, func(v DecimalSize) string { return fmt.Sprintf("%d %s", int64(v), v) }, [][2]string{
		{`"10M"`, "10000000 10MB"},
		{`"10mb"`, "10000000 10MB"},
		{`"10MiB"`, "10485760 10MiB"},
		{`"10 MiBytes"`, "10485760 10MiB"},
		{`"1.5k"`, "1500 1500"},
		{`4096`, "4096 4KiB"},
		{`0`, "0 0"},
		{`1000`, "1000 1KB"},
		{`"ten"`, "error: mismatch"},
	})
}

func TestDuration(t *testing.T) {
	checkValues(t, func(v Duration) string { return v.String() }, [][2]string{
		{`90`, "1m30s"},
		{`0.25`, "250ms"},
		{`"5m"`, "5m0s"},
		{`"1h30m"`, "1h30m0s"},
		{`"90"`, "1m30s"},
		{`"1.5"`, "1.5s"},
		{`-1`, "-1s"},
		{`"soon"`, "error: mismatch"},
		{`""`, "error: mismatch"},
		{`true`, "error: mismatch"},
		{`nan`, "error: out of range: at most about 146 years"},
		{`inf`, "error: out of range: at most about 146 years"},
		{`"nan"`, "error: out of range: at most about 146 years"},
		{`9223372036854775807`, "error: out of range: at most about 146 years"},
	})
	checkValues(t, func(v Timeout) string { return v.String() }, [][2]string{
		{`"none"`, "0s"}, {`""`, "0s"}, {`"None"`, "0s"}, {`0`, "0s"}, {`7200.0`, "2h0m0s"}, {`false`, "error: mismatch"},
	})
	if b, err := (Duration{90 * time.Second}).MarshalJSON(); err != nil || string(b) != `"1m30s"` {
		t.Errorf("90 s in JSON: %s, %v", b, err)
	}
}

func TestHostPort(t *testing.T) {
	checkValues(t, HostPort.String, [][2]string{
		{`"127.0.0.1:6001"`, "127.0.0.1:6001"},
		{`":6001"`, ":6001"},
		{`"[::1]:6001"`, "[::1]:6001"},
		{`"::1:6001"`, "[::1]:6001"},
		{`"host.docker.internal:1"`, "host.docker.internal:1"},
		{`["h", 1]`, "h:1"},
		{`["h", "65535"]`, "h:65535"},
		{`{host = "h", port = 1}`, "h:1"},
		{`{host = "[fd00::1]", port = "80"}`, "[fd00::1]:80"},
		{`{port = 80}`, ":80"},
		{`{host = "h"}`, "error: the port is missing"},
		{`{host = "h", prt = 1}`, `error: unknown key "prt" in an address: expected host and port`},
		{`"h"`, "error: mismatch"},
		{`"h:0"`, `error: the port must be a number from 1 to 65535, not "0"`},
		{`"h:65536"`, `error: the port must be a number from 1 to 65535, not "65536"`},
		{`"h:http"`, `error: the port must be a number from 1 to 65535, not "http"`},
		{`"tcp://h:1"`, `error: the host must be a name or an IP address, not "tcp://h"`},
		{`"a b:1"`, `error: the host must be a name or an IP address, not "a b"`},
		{`["h", 1, 2]`, "error: mismatch"},
		{`[1, 2]`, "error: mismatch"},
		{`["h", true]`, "error: mismatch"},
		{`6001`, "error: mismatch"},
	})
}

func TestHostPorts(t *testing.T) {
	checkValues(t, func(v HostPorts) string { return fmt.Sprint(v) }, [][2]string{
		{`"a:1"`, "[a:1]"},
		{`"a:1, b:2"`, "[a:1 b:2]"},
		{`["a", 1]`, "[a:1]"},
		{`["a", "1"]`, "[a:1]"},
		{`["a:1", "b:2"]`, "[a:1 b:2]"},
		{`[["a", 1], {host = "b", port = 2}, "c:3"]`, "[a:1 b:2 c:3]"},
		{`{host = "a", port = 1}`, "[a:1]"},
		{`[]`, "error: mismatch"},
		{`"a:1,"`, "error: mismatch"},
		{`1`, "error: mismatch"},
	})
}

func TestPortRange(t *testing.T) {
	const wrong = "error: port_range must be a tuple of two integers: mismatch"
	checkValues(t, PortRange.String, [][2]string{
		{`[30000, 31000]`, "30000-31000"},
		{`["30000", "31000"]`, "30000-31000"},
		{`"30000-31000"`, "30000-31000"},
		{`"30000, 31000"`, "30000-31000"},
		{`[5, 5]`, "5-5"},
		{`[30000]`, wrong},
		{`[1, 2, 3]`, wrong},
		{`[1.5, 2]`, wrong},
		{`["a", "b"]`, wrong},
		{`"30000"`, wrong},
		{`30000`, wrong},
		{`[]`, wrong},
		{`[31000, 30000]`, "error: the first port 31000 is above the last port 30000; write [30000, 31000]"},
		{`[0, 10]`, "error: ports go from 1 to 65535, found 0"},
		{`[1, 65536]`, "error: ports go from 1 to 65535, found 65536"},
	})
}

func TestIDs(t *testing.T) {
	const outOfRange = "error: out of range: IDs go from 0 to 4294967294, and -1 means the agent's own"
	checkValues(t, func(v UserID) string { return fmt.Sprint(int(v)) }, [][2]string{
		{`1000`, "1000"},
		{`"1000"`, "1000"},
		{`0`, "0"},
		{`-1`, "7"},
		{`"-1"`, "7"},
		{`""`, "7"},
		{`"work"`, "1100"},
		{`"joe"`, "error: no such user joe in system"},
		{`-2`, outOfRange},
		{`4294967295`, outOfRange},
		{`1.0`, "error: mismatch"},
		{`[1]`, "error: mismatch"},
	})
	checkValues(t, func(v GroupID) string { return fmt.Sprint(int(v)) }, [][2]string{
		{`1000`, "1000"},
		{`-1`, "8"},
		{`""`, "8"},
		{`"staff"`, "50"},
		{`"work"`, "1101"}, // a user's primary group
		{`"joe"`, "error: no such group 'joe' in system"},
	})
}

func TestWords(t *testing.T) {
	checkValues(t, func(v LogLevel) string { return string(v) }, [][2]string{
		{`"info"`, "INFO"}, {`"Trace"`, "TRACE"}, {`"NOTSET"`, "NOTSET"}, {`"WARN"`, "error: mismatch"}, {`10`, "error: mismatch"},
	})
	checkValues(t, func(v Backend) string { return string(v) }, [][2]string{
		{`"docker"`, "docker"}, {`"k8s"`, "kubernetes"}, {`"Docker"`, "error: mismatch"}, {`1`, "error: mismatch"},
	})
	checkValues(t, func(v AffinityPolicy) string { return string(v) }, [][2]string{
		{`"interleaved"`, "INTERLEAVED"}, {`"PACKED"`, "error: Invalid affinity policy: PACKED: mismatch"}, {`1`, "error: mismatch"},
	})
	checkValues(t, func(v StatsType) string { return string(v) }, [][2]string{
		{`"cgroup"`, "cgroup"}, {`""`, "docker"}, {`{}`, "error: mismatch"}, {`["docker"]`, "error: mismatch"},
	})
	checkValues(t, func(v Decimal) string { return string(v) }, [][2]string{
		{`1`, "1"},
		{`0.5`, "0.5"},
		{`"1.50"`, "1.50"},
		{`"1E+2"`, "1E+2"},
		{`"inf"`, "error: mismatch"},
		{`nan`, "error: mismatch"},
		{`"x"`, "error: mismatch"},
		{`true`, "error: mismatch"},
	})
	checkValues(t, func(v Path) string { return string(v) }, [][2]string{
		{`"a/../b"`, "/srv/b"},
		{`"/x/"`, "/x"},
		{`"~"`, "/home/op"},
		{`"~/a"`, "/home/op/a"},
		{`""`, ""},
		{`1`, "error: mismatch"},
		{`"a\u0000b"`, "error: a path cannot contain a NUL character"},
	})
}

func TestPlainTypes(t *testing.T) {
	const head = "[container]\n[resource]\n[etcd]\n[agent]\nbackend='docker'\n"
	for value, want := range map[string]string{
		"true": "true", "false": "false", `"yes"`: "true", `"off"`: "false", "1": "true", "0": "false",
	} {
		c, _ := mustLoad(t, head+"skip-manager-detection = "+value+"\n", nil)
		if got := fmt.Sprint(c.Agent.SkipManagerDetection); got != want {
			t.Errorf("boolean %s is %s, want %s", value, got, want)
		}
	}
	for value, want := range map[string]int{"5": 5, `"5"`: 5, "5.0": 5} {
		c, _ := mustLoad(t, head+"kernel-creation-concurrency = "+value+"\n", nil)
		if got := c.Agent.KernelCreationConcurrency; got != want {
			t.Errorf("integer %s is %d, want %d", value, got, want)
		}
	}
	for value, want := range map[string]string{
		"skip-manager-detection = 2":                    "expected true or false, found the integer 2",
		"kernel-creation-concurrency = 5.5":             "expected a whole number, from 1 to 32, found the number 5.5",
		"kernel-creation-concurrency = 'x'":             `expected a whole number, from 1 to 32, found the text "x"`,
		"kernel-creation-concurrency = 33":              "expected a whole number, from 1 to 32, found the integer 33",
		"region = 5":                                    "expected a text, found the integer 5",
		"region = {}":                                   "expected a text, found a table",
		"allow-compute-plugins = ['a', 5]":              `expected a list of texts such as ["a", "b"], found the list ["a", 5]`,
		"sync-container-lifecycles = {interval = -1}":   "expected a duration such as \"5m\" or a number of seconds, at least 0, found the integer -1",
		"region = ['" + strings.Repeat("x", 100) + "']": `expected a text, found the list ["` + strings.Repeat("x", 59) + "…]",
	} {
		_, _, err := load(head+value+"\n", nil)
		if err == nil || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%s: error %v, want one ending in %q", value, err, want)
		}
	}
}

func TestNullable(t *testing.T) {
	c, _ := mustLoad(t, minimal+"[agentd]\nmetrics-addr = ''\n[logging.console]\ncolored = ''\n", nil)
	if c.Agentd.MetricsAddr != nil || c.Logging.Console.Colored != nil {
		t.Errorf("empty texts are %v and %v, want none", c.Agentd.MetricsAddr, c.Logging.Console.Colored)
	}
	c, _ = mustLoad(t, minimal, nil)
	if diff := cmp.Diff([]string(nil), c.Agent.AllowComputePlugins); diff != "" {
		t.Errorf("no list means all plugins:\n%s", diff)
	}
}
