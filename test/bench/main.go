// SPDX-License-Identifier: Apache-2.0

// Command bench measures agentd against the bare engine in one run: every
// figure is a ratio of medians, and the two sides take turns, so that a noisy
// machine disturbs both alike. It prints a table in Markdown.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
	"agentd/pkg/runtime/docker"
)

const image = "agentd.local/busybox:1"

func main() {
	bin := flag.String("bin", "bin", "directory of agentd and bai-runner")
	rounds := flag.Int("rounds", 5, "rounds of each measurement; medians are printed")
	many := flag.Int("many", 50, "kernels of the restart measurement")
	flag.Parse()
	if err := run(*bin, *rounds, *many); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one agent and one bare engine client.
type bench struct {
	ctx    context.Context
	bin    string
	dir    string
	id     string
	cmd    *exec.Cmd
	client *admin.Client
	engine *docker.Engine // the bare side, under an agent ID of its own
	n      int
}

func run(bin string, rounds, many int) (err error) {
	b := &bench{ctx: context.Background(), id: fmt.Sprintf("i-bench-%d", os.Getpid())}
	if b.bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "agentd-bench."); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	if b.engine, err = docker.New(docker.Options{AgentID: b.id + "-bare"}); err != nil {
		return err
	}
	if err := b.configure(); err != nil {
		return err
	}
	if err := b.start(); err != nil {
		return err
	}
	defer b.clean()
	idle := b.rss()
	fmt.Println("| what | agentd | bare engine | ratio |")
	fmt.Println("|---|---|---|---|")
	if err := b.single(rounds); err != nil {
		return err
	}
	if err := b.cluster(rounds, 8); err != nil {
		return err
	}
	pss, err := b.runnerPSS()
	if err != nil {
		return err
	}
	recovery, err := b.recovery(rounds, many)
	if err != nil {
		return err
	}
	st, err := os.Stat(filepath.Join(b.bin, "bai-runner"))
	if err != nil {
		return err
	}
	fmt.Printf("| agentd, idle, resident | %.1f MiB | | |\n", float64(idle)/(1<<20))
	fmt.Printf("| bai-runner with sshd, PSS, the only one on the node | %.1f MiB | | |\n", float64(pss)/(1<<20))
	fmt.Printf("| bai-runner, binary | %.1f MiB | | |\n", float64(st.Size())/(1<<20))
	fmt.Printf("| SIGKILL with %d kernels → admin socket answers with adopted state | %d ms | | |\n", many, recovery.Milliseconds())
	return nil
}

func (b *bench) configure() error {
	conf := fmt.Sprintf(`[manager]
enabled = false
[agentd]
state-dir = %q
[agent]
backend = "docker"
id = %q
[container]
scratch-root = %q
kernel-uid = 1000
kernel-gid = 1000
port-range = [31500, 32099]
port-reuse-cooldown-sec = 0
[resource]
reserved-cpu = 0
`, filepath.Join(b.dir, "state"), b.id, filepath.Join(b.dir, "scratches"))
	return os.WriteFile(filepath.Join(b.dir, "agent.toml"), []byte(conf), 0o600)
}

// start runs the daemon and returns once its socket answers with the adopted state.
func (b *bench) start() error {
	log, err := os.OpenFile(filepath.Join(b.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	b.cmd = exec.Command(filepath.Join(b.bin, "agentd"), "run", "--config", filepath.Join(b.dir, "agent.toml"))
	b.cmd.Env = append(os.Environ(), "BACKEND_CPU_OVERCOMMIT_FACTOR=50", "BACKEND_MEM_OVERCOMMIT_FACTOR=4")
	b.cmd.Stdout, b.cmd.Stderr = log, log
	if err := b.cmd.Start(); err != nil {
		return err
	}
	b.client = admin.NewClient(filepath.Join(b.dir, "state", "agentd.sock"))
	for range 20000 {
		if _, err = b.client.Version(b.ctx); err == nil {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("the daemon did not come up: %w", err)
}

func (b *bench) stop() {
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	_ = b.cmd.Wait()
}

// clean ends the daemon and removes what a failed run left of its containers and networks.
func (b *bench) clean() {
	b.stop()
	for _, id := range []string{b.id, b.id + "-bare"} {
		for _, kind := range []string{"container", "network"} {
			list := []string{kind, "ls", "-q", "--filter", "label=ai.backend.agent-id=" + id}
			if kind == "container" {
				list = append(list, "-a")
			}
			out, _ := exec.Command("docker", list...).Output()
			for x := range strings.FieldsSeq(string(out)) {
				_ = exec.Command("docker", kind, "rm", "-f", x).Run()
			}
		}
	}
}

// failed makes an error of a result that is not a success.
func failed(p admin.Progress) error {
	if p.Type == admin.ProgressResult && !p.OK {
		return fmt.Errorf("session %s: %s %s", p.Session, p.Reason, p.Message)
	}
	return nil
}

// file is a session file.
func (b *bench) file(name string, subs int) []byte {
	text := fmt.Sprintf("apiVersion: agentd/v1\nkind: ClusterSession\nmetadata: {name: %s}\nspec:\n  image: %s\n  slots: {cpu: \"1\", mem: 64m}\n  replicas:\n    - {role: main}\n", name, image)
	if subs > 0 {
		text += fmt.Sprintf("    - {role: sub, count: %d}\n", subs)
	}
	return []byte(text)
}

var wait = admin.WaitOptions{Wait: true, Timeout: 2 * time.Minute}

// up applies a session and returns how long it took to be ready.
func (b *bench) up(subs int) (string, time.Duration, error) {
	b.n++
	name := "bench" + strconv.Itoa(b.n)
	begin := time.Now()
	err := b.client.Apply(b.ctx, name, b.file(name, subs), wait, failed)
	return name, time.Since(begin), err
}

func (b *bench) down(name string) (time.Duration, error) {
	begin := time.Now()
	err := b.client.DeleteSession(b.ctx, name, wait, failed)
	return time.Since(begin), err
}

// specs returns the container specs of the kernels that exist, and copies
// their scratches so that the bare engine can mount the same.
func (b *bench) specs() ([]apis.ContainerSpec, error) {
	raw, err := b.client.List(b.ctx, apis.KindContainer)
	if err != nil {
		return nil, err
	}
	var out []apis.ContainerSpec
	for i, r := range raw {
		var c apis.Container
		if err := json.Unmarshal(r, &c); err != nil {
			return nil, err
		}
		s := c.Spec
		dir := filepath.Join(b.dir, "bare", strconv.Itoa(i))
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return nil, err
		}
		src := filepath.Join(b.dir, "scratches", c.Name)
		if out, err := exec.Command("cp", "-a", src, dir).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("copying a scratch: %s", out)
		}
		_ = os.Remove(filepath.Join(dir, "run", "runner.sock"))
		s.EngineName = "bare." + b.id + "." + strconv.Itoa(i)
		for j := range s.Mounts {
			s.Mounts[j].Source = strings.Replace(s.Mounts[j].Source, src, dir, 1)
		}
		for j := range s.Ports {
			s.Ports[j].Host += 600
		}
		out = append(out, s)
	}
	return out, nil
}

// bareUp creates and starts containers in parallel; bareDown stops and removes them.
func (b *bench) bareUp(specs []apis.ContainerSpec) ([]string, time.Duration, error) {
	ids := make([]string, len(specs))
	errs := make([]error, len(specs))
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range specs {
		wg.Go(func() {
			if ids[i], errs[i] = b.engine.Create(b.ctx, specs[i]); errs[i] == nil {
				errs[i] = b.engine.Start(b.ctx, ids[i])
			}
		})
	}
	wg.Wait()
	return ids, time.Since(begin), errors.Join(errs...)
}

func (b *bench) bareDown(ids []string) (time.Duration, error) {
	errs := make([]error, len(ids))
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			if errs[i] = b.engine.Stop(b.ctx, ids[i], 10*time.Second); errs[i] == nil {
				errs[i] = b.engine.Remove(b.ctx, ids[i])
			}
		})
	}
	wg.Wait()
	return time.Since(begin), errors.Join(errs...)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func row(what string, ours, bare []time.Duration) {
	a, c := median(ours), median(bare)
	fmt.Printf("| %s | %d ms | %d ms | %.2f |\n", what, a.Milliseconds(), c.Milliseconds(), float64(a)/float64(c))
}

// single measures one kernel, turn by turn.
func (b *bench) single(rounds int) error {
	return b.pair(rounds, 0, "kernel applied → ready, to create + start", "kernel deleted → gone, to stop + remove")
}

func (b *bench) cluster(rounds, kernels int) error {
	return b.pair(rounds, kernels-1, fmt.Sprintf("%d-kernel cluster applied → ready, to %d in parallel", kernels, kernels),
		fmt.Sprintf("%d-kernel cluster deleted → gone, to %d in parallel", kernels, kernels))
}

func (b *bench) pair(rounds, subs int, up, down string) error {
	var ups, downs, bareUps, bareDowns []time.Duration
	for i := range rounds + 1 { // the first round warms up and does not count
		name, u, err := b.up(subs)
		if err != nil {
			return err
		}
		specs, err := b.specs()
		if err != nil {
			return err
		}
		if subs > 0 { // the bare side needs the cluster's network; it stays while the session does
			ids, bu, err := b.bareUp(specs)
			if err != nil {
				return err
			}
			bd, err := b.bareDown(ids)
			if err != nil {
				return err
			}
			d, err := b.down(name)
			if err != nil {
				return err
			}
			ups, downs, bareUps, bareDowns = keep(i, ups, u), keep(i, downs, d), keep(i, bareUps, bu), keep(i, bareDowns, bd)
			continue
		}
		d, err := b.down(name)
		if err != nil {
			return err
		}
		ids, bu, err := b.bareUp(specs)
		if err != nil {
			return err
		}
		bd, err := b.bareDown(ids)
		if err != nil {
			return err
		}
		ups, downs, bareUps, bareDowns = keep(i, ups, u), keep(i, downs, d), keep(i, bareUps, bu), keep(i, bareDowns, bd)
	}
	row(up, ups, bareUps)
	row(down, downs, bareDowns)
	return nil
}

func keep(round int, list []time.Duration, d time.Duration) []time.Duration {
	if round == 0 {
		return list
	}
	return append(list, d)
}

// rss is the daemon's resident memory in bytes.
func (b *bench) rss() int64 {
	return field(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid), "VmRSS:")
}

// runnerPSS is the proportional memory of the runner of a kernel that shares it with no other.
func (b *bench) runnerPSS() (int64, error) {
	name, _, err := b.up(0)
	if err != nil {
		return 0, err
	}
	var most int64
	procs, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, p := range procs {
		if target, err := os.Readlink(p); err == nil && strings.HasSuffix(target, "/bai-runner") {
			most = max(most, field(filepath.Join(filepath.Dir(p), "smaps_rollup"), "Pss:"))
		}
	}
	_, err = b.down(name)
	return most, err
}

// field reads a value in kB from a file under /proc and returns bytes.
func field(path, name string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// recovery kills the daemon over many kernels and measures until its socket
// answers with all of them ready.
func (b *bench) recovery(rounds, many int) (time.Duration, error) {
	var names []string
	for left := many; left > 0; {
		n := min(left, 10)
		name, _, err := b.up(n - 1)
		if err != nil {
			return 0, err
		}
		names, left = append(names, name), left-n
	}
	var times []time.Duration
	for range rounds {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		begin := time.Now()
		if err := b.start(); err != nil {
			return 0, err
		}
		raw, err := b.client.List(b.ctx, apis.KindKernel)
		if err != nil {
			return 0, err
		}
		ready := 0
		for _, r := range raw {
			var k apis.Kernel
			if err := json.Unmarshal(r, &k); err != nil {
				return 0, err
			}
			if k.Status.Conditions.IsReady(k.Generation) {
				ready++
			}
		}
		if ready != many {
			return 0, fmt.Errorf("%d of %d kernels are ready after the restart", ready, many)
		}
		times = append(times, time.Since(begin))
	}
	for _, n := range names {
		if _, err := b.down(n); err != nil {
			return 0, err
		}
	}
	return median(times), nil
}
