// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
	"agentd/pkg/apis/config"
	"agentd/pkg/controller"
	"agentd/pkg/controller/intake"
	"agentd/pkg/reconciler"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/docker"
	"agentd/pkg/runtime/runner"
	"agentd/pkg/runtime/scratch"
	"agentd/pkg/slots"
)

// checkpointLockWait is how long another agentd may hold the checkpoint before this one gives up.
const checkpointLockWait = time.Second

// machine is the node as configured: what the daemon, the one-shot repair and
// its dry run start from.
type machine struct {
	cfg      *config.Config
	agentID  string
	engine   *docker.Engine
	node     runtime.Node
	logs     *runtime.KeptLogs
	dirs     *scratch.Store
	settings reconciler.Settings
	devices  *slots.Ledger
	facts    reconciler.NodeFacts
	registry *prometheus.Registry
	metrics  *controller.Metrics
	log      logr.Logger
}

// newMachine makes the directories and connects the parts; it changes nothing on
// the engine. For a dry run it makes no directories either, and the node is to
// be looked at only: it keeps no logs.
func newMachine(cfg *config.Config, log logr.Logger, dryRun bool) (*machine, error) {
	if err := errors.Join(cfg.Unsupported()...); err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // the agent ID is made up without one
	m := &machine{
		cfg: cfg, log: log, registry: prometheus.NewRegistry(),
		agentID: config.AgentID(cfg.Agent.ID, host, config.Instance{}, uuid.NewString),
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.metrics = controller.NewMetrics(m.registry)
	overrides, err := readOverrides()
	if err != nil {
		return nil, err
	}
	if m.engine, err = docker.New(docker.Options{Host: os.Getenv("DOCKER_HOST"), AgentID: m.agentID, Overrides: overrides}); err != nil {
		return nil, err
	}
	scratches := []scratch.Option{scratch.WithOwner(m.agentID)}
	if dryRun {
		scratches = append(scratches, scratch.Existing())
	} else if err := m.makeDirs(); err != nil {
		return nil, err
	}
	if m.dirs, err = scratch.New(string(cfg.Container.ScratchRoot), scratches...); err != nil {
		return nil, err
	}
	m.node.Containers, m.node.Networks, m.node.Images = m.engine, m.engine.Networks(), m.engine.Images()
	m.node.Scratches, m.node.Runner = m.dirs, runners{m.dirs}
	if m.settings, err = m.readSettings(); err != nil {
		return nil, err
	}
	return m, m.detectDevices()
}

// makeDirs makes what the configuration names, and the place for kept logs.
func (m *machine) makeDirs() error {
	if err := m.cfg.CreateDirs(); err != nil {
		return err
	}
	var err error
	m.logs, err = runtime.NewKeptLogs(filepath.Join(string(m.cfg.Agentd.StateDir), "logs"), int64(m.cfg.ContainerLogs.MaxLength))
	m.node.Logs = m.logs
	return err
}

// runners finds the runner of a kernel in its scratch.
type runners struct{ dirs *scratch.Store }

// WaitReady waits for the runner's word over the socket in the scratch.
func (r runners) WaitReady(ctx context.Context, kernelID string) error {
	_, err := runner.WaitReady(ctx, filepath.Join(r.dirs.Path(kernelID), reconciler.RunDir))
	return err
}

// overrideFiles are an operator's additions to every container, in the order
// in which they are merged (26.8).
func overrideFiles() []string {
	const name = "agent-docker-container-opts.json"
	files := []string{"/etc/backend.ai/" + name}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".config/backend.ai", name))
	}
	return append(files, name)
}

func readOverrides() ([]docker.Override, error) {
	var out []docker.Override
	for _, path := range overrideFiles() {
		b, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("container options: %w", err)
		default:
			out = append(out, docker.Override{Path: path, JSON: b})
		}
	}
	return out, nil
}

// readSettings takes what the plan needs from the configuration and the host.
func (m *machine) readSettings() (reconciler.Settings, error) {
	c := m.cfg
	runnerPath, err := findRunner(string(c.Agentd.Runner))
	if err != nil {
		return reconciler.Settings{}, err
	}
	bind := c.Container.BindHost
	if bind == "" {
		bind = "127.0.0.1"
	}
	host := bind
	if c.Container.AdvertisedHost != "" {
		host = c.Container.AdvertisedHost
	}
	s := reconciler.Settings{
		AgentID: m.agentID, BindHost: bind, KernelHost: host,
		KernelUID: int(c.Container.KernelUID), KernelGID: int(c.Container.KernelGID),
		RunnerPath: runnerPath, ScratchKind: string(c.Container.ScratchType), ScratchBytes: int64(c.Container.ScratchSize),
		AlternativeBridge: c.Container.AlternativeBridge, LogMaxBytes: int64(c.ContainerLogs.MaxLength),
		StopGrace: c.Agentd.StopGrace.Duration, StartTimeout: c.Agentd.StartTimeout.Duration,
		Ulimits: m.hostLimits(), ScalingGroupType: c.Agent.ScalingGroupType,
	}
	for _, f := range []string{"/etc/localtime", "/etc/timezone"} {
		if st, err := os.Stat(f); err == nil && st.Mode().IsRegular() {
			s.HostFiles = append(s.HostFiles, apis.Mount{Source: f, Target: f, ReadOnly: true})
		}
	}
	return s, nil
}

// findRunner returns the path of bai-runner, which has to be where the engine can mount it from.
func findRunner(configured string) (string, error) {
	path := configured
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("finding bai-runner: %w; set agentd.runner", err)
		}
		path = filepath.Join(filepath.Dir(self), "bai-runner")
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("bai-runner: %w; it is built by \"make build\" and belongs next to agentd, or set agentd.runner", err)
	case !st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0:
		return "", fmt.Errorf("bai-runner: %s is not an executable file; set agentd.runner", path)
	}
	return path, nil
}

// hostLimits are the ulimits of kernels, lowered to what this process and the
// engine's host allow (26.8: nofile 1048576, memlock unlimited). A limit above
// that would keep every container from starting.
func (m *machine) hostLimits() []apis.Ulimit {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	// An engine that is down tells its ceilings nobody, and starts nothing either.
	info, _ := m.engine.Info(ctx)
	var out []apis.Ulimit
	var clamped []string
	for _, want := range []struct {
		name string
		id   int
		max  int64
	}{{"nofile", unix.RLIMIT_NOFILE, 1 << 20}, {"memlock", unix.RLIMIT_MEMLOCK, -1}} {
		got := want.max
		lower := func(limit int64) {
			if limit >= 0 && (got < 0 || limit < got) {
				got = limit
			}
		}
		var own unix.Rlimit
		if err := unix.Getrlimit(want.id, &own); err == nil && own.Max != unix.RLIM_INFINITY {
			lower(int64(min(own.Max, 1<<62)))
		}
		if ceiling, ok := info.UlimitCeilings[want.name]; ok {
			lower(ceiling)
		}
		if got != want.max {
			clamped = append(clamped, fmt.Sprintf("%s is lowered to %d, which is what the host allows", want.name, got))
		}
		out = append(out, apis.Ulimit{Name: want.name, Soft: got, Hard: got})
	}
	m.facts.Clamped = strings.Join(clamped, "; ")
	return out
}

// portFree asks the host whether nothing listens on the address.
func portFree(hostIP string, port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort(hostIP, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// newSet builds the controllers over a store and a node, which is the real one or a copy.
func (m *machine) newSet(store *controller.Store, tables *controller.Tables, node runtime.Node, grace time.Duration) *reconciler.Set {
	facts := m.facts
	set := reconciler.NewSet(store, tables, reconciler.Config{
		Settings: m.settings, Node: node,
		Ledger: reconciler.NewLedger(tables, reconciler.LedgerConfig{
			Slots: m.devices, PortFirst: m.cfg.Container.PortRange.Low, PortLast: m.cfg.Container.PortRange.High,
			Cooldown: m.cfg.Container.PortReuseCooldownSec.Duration, PortFree: portFree,
		}),
		PullTimeout: m.cfg.API.PullTimeout.Duration.Duration, CreationWorkers: m.cfg.Agent.KernelCreationConcurrency,
		SweepGrace: grace, Facts: facts, Log: m.log, Metrics: m.metrics,
	})
	return set
}

// checkpointPath is where the durable objects are.
func checkpointPath(cfg *config.Config) string {
	return filepath.Join(string(cfg.Agentd.StateDir), "checkpoint.db")
}

// detectDevices looks what the node has and what of it kernels may use.
func (m *machine) detectDevices() error {
	root := os.DirFS("/")
	how := slots.Detection{}
	for _, f := range []struct {
		env  string
		into *int
	}{{"BACKEND_CPU_OVERCOMMIT_FACTOR", &how.CPUOvercommit}, {"BACKEND_MEM_OVERCOMMIT_FACTOR", &how.MemoryOvercommit}} {
		text := os.Getenv(f.env)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("%s=%q: a whole number from 1 is needed", f.env, text)
		}
		*f.into = n
	}
	cores, err := slots.DetectCores(root, how)
	if err != nil {
		return err
	}
	memory, err := slots.DetectMemory(root, how)
	if err != nil {
		return err
	}
	devices := append(cores, memory)
	whole, err := slots.NewLedger(devices, slots.DefaultPolicy())
	if err != nil {
		return err
	}
	reserve := slots.Reservation{
		Cores: int64(m.cfg.Resource.ReservedCPU), MemoryBytes: int64(m.cfg.Resource.ReservedMem),
		AlignBytes: int64(m.cfg.Resource.MemoryAlignSize),
	}
	limits, err := reserve.Limits(whole.Capacity())
	if err != nil {
		return fmt.Errorf("[resource]: %w", err)
	}
	policy := slots.DefaultPolicy()
	policy.Order, policy.Limits = m.cfg.Resource.AllocationOrder, limits
	if m.devices, err = slots.NewLedger(devices, policy); err != nil {
		return err
	}
	m.facts.Capacity = m.devices.Capacity().Texts()
	m.facts.Reserved = whole.Capacity().Sub(m.devices.Capacity()).Texts()
	return nil
}

// fits refuses a session that this node could never hold, before anything is
// stored. Who asks says which session it is about.
func (m *machine) fits(x intake.Session) error {
	total := slots.Amounts{}
	var errs []error
	for _, id := range x.Spec.Kernels {
		k := x.Kernels[id]
		want, err := slots.ParseAmounts(k.Slots)
		if err == nil {
			want, err = m.devices.Normalize(want)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("kernel %s (%s): %w: %w", id, k.Hostname, apis.ErrInvalid, err))
			continue
		}
		total = total.Add(want)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	have := m.devices.Capacity()
	var lacks []string
	for _, slot := range total.Slots() {
		if have[slot].Less(total[slot]) {
			lacks = append(lacks, fmt.Sprintf("it asks for %s of slot %s, and this node has %s in all", total[slot].Plain(), slot, have[slot].Plain()))
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("%w: %s", apis.ErrInvalid, strings.Join(lacks, "; "))
	}
	return nil
}
