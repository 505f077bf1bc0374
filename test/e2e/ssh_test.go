// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var hosts = []string{"main1", "sub1", "sub2"}

// TestCluster: three kernels on one node know each other, reach each other by name, by SSH and on any port, are limited
// alike, and show the outside nothing that is not configured.
func TestCluster(t *testing.T) {
	for _, image := range []string{busybox, python, musl} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t)
			file := a.apply("three", session(a.name("three"), image, 2, "shm: 48m"))
			a.clusterEnvironment()
			a.namesResolve()
			a.logins()
			a.copies()
			a.sftpBatch()
			a.equalLimits()
			a.noFilter(image == python)
			for _, ip := range a.published() {
				if ip != "127.0.0.1" {
					t.Errorf("published on %s; the default is the loopback only", ip)
				}
			}
			a.must("delete", "-f", file)
			a.mustBeClean()
		})
	}
}

func (a *agent) clusterEnvironment() {
	a.t.Helper()
	for rank, host := range hosts {
		role, index := host[:len(host)-1], host[len(host)-1:]
		want := map[string]string{
			"SIZE": "3", "REPLICAS": "main:1,sub:2", "HOSTS": "main1,sub1,sub2", "HOST": host,
			"ROLE": role, "IDX": index, "LOCAL_RANK": strconv.Itoa(rank),
		}
		// In a command run by agentd, in the kernel's main process, and in a login over SSH.
		for what, text := range map[string]string{
			"exec": a.sh(a.at(host), "env"),
			"main": a.must("exec", "--root", a.at(host), "--", "sh", "-c", "tr '\\0' '\\n' </proc/1/environ"),
			"ssh":  a.sh(a.at("main1"), "ssh "+host+" env"),
		} {
			got := map[string]string{}
			for _, line := range lines(text) {
				if name, ok := strings.CutPrefix(line, "BACKENDAI_CLUSTER_"); ok {
					name, value, _ := strings.Cut(name, "=")
					got[name] = value
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				a.t.Errorf("%s, %s: BACKENDAI_CLUSTER_* is %v, want %v", host, what, got, want)
			}
		}
	}
}

func (a *agent) namesResolve() {
	a.t.Helper()
	own := map[string]string{}
	for _, host := range hosts {
		own[host] = a.inspect(a.kernel(host), "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
	}
	for _, from := range hosts {
		if got := a.sh(a.at(from), "hostname"); got != from {
			a.t.Errorf("%s calls itself %q", from, got)
		}
		for _, to := range hosts {
			script := "getent hosts " + to + " 2>/dev/null || nslookup " + to
			if got := a.sh(a.at(from), script); !strings.Contains(got, own[to]) {
				a.t.Errorf("%s resolves %s to %q, want %s", from, to, got, own[to])
			}
		}
	}
}

// logins go from each host to each other as user work, without a terminal or input that could answer a question.
func (a *agent) logins() {
	a.t.Helper()
	for _, from := range hosts {
		got := a.sh(a.at(from), `for h in main1 sub1 sub2; do ssh $h 'echo $(hostname) $(id -un) $(id -u) $(pwd)' </dev/null; done`)
		if want := "main1 work 1000 /home/work\nsub1 work 1000 /home/work\nsub2 work 1000 /home/work"; got != want {
			a.t.Errorf("ssh from %s to all: %q, want %q", from, got, want)
		}
	}
	if got := a.sh(a.at("main1"), "ssh sub1 ssh sub2 ssh main1 hostname"); got != "main1" {
		a.t.Errorf("ssh in three hops ends at %q", got)
	}
	codes := a.sh(a.at("main1"), `set +e
for c in 0 1 7 126 255; do ssh sub1 exit $c; echo $?; done
ssh sub1 no-such-command 2>/dev/null; echo $?
ssh sub1 'kill -9 $$' >/dev/null 2>&1; [ $? -gt 127 ] && echo killed`)
	if codes != "0\n1\n7\n126\n255\n127\nkilled" {
		a.t.Errorf("exit codes through ssh: %q", codes)
	}
	if r := a.in(a.at("main1"), "ssh", "nowhere", "true"); r.code != 255 || !strings.Contains(r.err, "nowhere") {
		a.t.Errorf("ssh to a host that does not exist: %+v, want exit code 255 and its name", r)
	}
	// Streams: input arrives, and both outputs stay apart.
	r := a.in(a.at("main1"), "sh", "-c", "head -c 300000 /dev/zero | ssh sub2 'wc -c; echo bad >&2'")
	a.want(r, 0, "300000", "bad")
	if strings.Contains(r.out, "bad") {
		a.t.Errorf("output and errors are mixed: %+v", r)
	}
	// agentd ssh goes to a host without any of that.
	a.want(a.run("ssh", a.at("sub1"), "ssh main1 'hostname; exit 5'"), 5, "main1\n", "")
}

// copies go both ways, with modes, times and the receiver as owner.
func (a *agent) copies() {
	a.t.Helper()
	got := a.sh(a.at("main1"), `
mkdir -p tree/deep && echo one >tree/file && echo two >tree/deep/run && : >tree/empty
chmod 0640 tree/file && chmod 0750 tree/deep/run && chmod 0700 tree/deep
touch -t 200102030405.06 tree/file tree/deep/run tree/deep
head -c 3000000 /dev/urandom >big
scp -q -p tree/file sub1:one
scp -q -r -p tree sub1:
scp -q big sub1:/tmp/big
scp -q sub1:/tmp/big back
cmp big back
ssh sub1 'ls -lnd one tree tree/file tree/deep tree/deep/run; cat one tree/deep/run; date -r one +%Y; date -r tree/deep/run +%Y'
echo --
scp -q -r -p sub1:tree copy
ls -lnd copy/file copy/deep copy/deep/run && date -r copy/file +%Y && cat copy/deep/run
scp -q sub1:one sub2:two && ssh sub2 cat two`)
	var modes []string
	for _, line := range lines(got) {
		f := strings.Fields(line)
		if len(f) < 8 {
			modes = append(modes, line)
			continue
		}
		modes = append(modes, f[0]+" "+f[2]+" "+f[3]+" "+f[len(f)-1])
	}
	want := []string{
		"-rw-r----- 1000 1000 one", "drwxr-xr-x 1000 1000 tree", "drwx------ 1000 1000 tree/deep",
		"-rwxr-x--- 1000 1000 tree/deep/run", "-rw-r----- 1000 1000 tree/file", "one", "two", "2001", "2001", "--",
		"drwx------ 1000 1000 copy/deep", "-rwxr-x--- 1000 1000 copy/deep/run", "-rw-r----- 1000 1000 copy/file", "2001", "two", "one",
	}
	if !slices.Equal(modes, want) {
		a.t.Errorf("after the copies:\n%s\nwant:\n%s", strings.Join(modes, "\n"), strings.Join(want, "\n"))
	}
	if r := a.in(a.at("main1"), "scp", "sub1:no-such-file", "."); r.code == 0 || !strings.Contains(r.err, "no-such-file") {
		a.t.Errorf("scp of a file that does not exist: %+v", r)
	}
}

func (a *agent) sftpBatch() {
	a.t.Helper()
	got := a.sh(a.at("main1"), `
echo from-main >local.txt
printf '%s\n' 'mkdir inbox' 'put local.txt inbox/remote.txt' 'chmod 600 inbox/remote.txt' 'get inbox/remote.txt again.txt' 'ls inbox' >batch
sftp -q -b batch sub2 >listing
grep -c remote.txt listing >/dev/null
cat again.txt
ssh sub2 'ls -ln inbox/remote.txt' | cut -c 1-10
echo 'get missing' >batch
if sftp -q -b batch sub2 >/dev/null 2>&1; then echo a failed batch succeeds; fi`)
	if got != "from-main\n-rw-------" {
		a.t.Errorf("sftp: %q", got)
	}
}

// noFilter connects to ports that nobody announced, in both directions.
func (a *agent) noFilter(hasPython bool) {
	a.t.Helper()
	type way struct {
		from, to, proto string
		port            int
	}
	for _, w := range []way{
		{"main1", "sub1", "tcp", 1025},
		{"sub1", "main1", "tcp", 31337},
		{"sub1", "sub2", "tcp", 65535},
		{"sub2", "sub1", "tcp", 80},
		{"main1", "sub2", "udp", 5353},
		{"sub2", "main1", "udp", 40000},
	} {
		if w.proto == "udp" && !hasPython {
			continue // the nc of busybox speaks TCP only
		}
		text := fmt.Sprintf("%s-%s-%d", w.from, w.to, w.port)
		kind := map[string]string{"tcp": "SOCK_STREAM", "udp": "SOCK_DGRAM"}[w.proto]
		listen := fmt.Sprintf("nc -l -p %d >got-%d 2>&1 &", w.port, w.port)
		send := fmt.Sprintf("echo %s | nc -w 1 %s %d", text, w.to, w.port)
		if hasPython {
			listen = fmt.Sprintf(`cat >listen.py <<'END'
import socket
s = socket.socket(socket.AF_INET, socket.%s)
s.bind(("", %d))
c = s
if s.type == socket.SOCK_STREAM:
    s.listen()
    c = s.accept()[0]
open("got-%d", "wb").write(c.recv(100))
END
python3 listen.py >/dev/null 2>&1 &`, kind, w.port, w.port)
			send = fmt.Sprintf(`python3 -c 'import socket
s = socket.socket(socket.AF_INET, socket.%s)
s.settimeout(5)
s.connect(("%s", %d))
s.send(b"%s\n")'`, kind, w.to, w.port, text)
		}
		a.sh(a.at(w.to), listen)
		a.eventually(fmt.Sprintf("%s port %d from %s to %s", w.proto, w.port, w.from, w.to), 10*time.Second, func() error {
			r := a.in(a.at(w.from), "sh", "-c", send)
			if got := a.in(a.at(w.to), "cat", fmt.Sprintf("got-%d", w.port)); strings.TrimSpace(got.out) != text {
				return fmt.Errorf("it got %q; the sender: %+v", got.out, r)
			}
			return nil
		})
	}
}

// equalLimits compares what the engine enforces with the request: 1 CPU, 128 MiB without swap, 48 MiB of shared memory.
func (a *agent) equalLimits() {
	a.t.Helper()
	const all = "{{.HostConfig.CpusetCpus}} {{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.ShmSize}} " +
		"{{.HostConfig.PidsLimit}} {{.HostConfig.NanoCpus}} {{range .HostConfig.Ulimits}}{{.Name}}={{.Soft}}:{{.Hard}},{{end}}"
	var first string
	for _, host := range hosts {
		cpus, rest, _ := strings.Cut(a.inspect(a.kernel(host), all), " ")
		if cpus == "" || strings.ContainsAny(cpus, ",-") {
			a.t.Errorf("%s: CPUs %q, want one", host, cpus)
		}
		if !strings.HasPrefix(rest, "134217728 134217728 50331648 ") || !strings.Contains(rest, "nofile=") || !strings.Contains(rest, "memlock=") {
			a.t.Errorf("%s: limits %q", host, rest)
		}
		if host == hosts[0] {
			first = rest
		} else if rest != first {
			a.t.Errorf("%s: limits %q differ from %q", host, rest, first)
		}
		// And so the kernel's own processes see them.
		seen := a.sh(a.at(host), "nproc; df -k /dev/shm | tail -n 1 | awk '{print $2}'; cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes")
		if seen != "1\n49152\n134217728" {
			a.t.Errorf("%s sees %q", host, seen)
		}
	}
}

// published returns the host addresses that the kernels' ports are published on, and connects to each of them.
func (a *agent) published() []string {
	a.t.Helper()
	var out []string
	for _, k := range a.get("kernels") {
		text := a.inspect(str(dig(k, "metadata", "name")), `{{range $p, $l := .NetworkSettings.Ports}}{{range $l}}{{$p}} {{.HostIp}} {{.HostPort}}{{"\n"}}{{end}}{{end}}`)
		ssh := 0
		for _, line := range lines(strings.TrimSpace(text)) {
			f := strings.Fields(line)
			port, err := strconv.Atoi(f[2])
			if err != nil || port < a.ports[0] || port > a.ports[1] {
				a.t.Errorf("%s: port outside of the configured range", line)
			}
			out = append(out, f[1])
			if f[0] != "2200/tcp" {
				continue
			}
			ssh++
			conn, err := net.DialTimeout("tcp", net.JoinHostPort(f[1], f[2]), 5*time.Second)
			if err != nil {
				a.t.Errorf("the published SSH port: %v", err)
				continue
			}
			banner := make([]byte, 4)
			_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := conn.Read(banner); err != nil || string(banner) != "SSH-" {
				a.t.Errorf("the published SSH port answers %q, %v", banner, err)
			}
			_ = conn.Close()
		}
		if ssh != 1 {
			a.t.Errorf("SSH is published %d times:\n%s", ssh, text)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestBindHost: with another address in the configuration, ports are published on that one and on no other.
func TestBindHost(t *testing.T) {
	own := ""
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() && own == "" {
			own = ip.IP.String()
		}
	}
	a := newAgent(t, with("container.bind-host", q(own)))
	file := a.apply("three", session(a.name("three"), busybox, 2))
	if got := a.published(); !slices.Equal(got, []string{own}) {
		t.Errorf("published on %q, want %s alone", got, own)
	}
	a.must("delete", "-f", file)
	a.mustBeClean()
}
