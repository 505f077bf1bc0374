// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/controller/intake"
	"agentd/pkg/reconciler"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/docker"
)

const (
	// firstPass bounds how long the sweep waits for every name to have had one pass.
	firstPass = time.Minute
	// Logs of ended kernels are kept for a while, like in Redis (1 h, 26.8).
	keptLogFiles = 256
	keptLogAge   = time.Hour
)

func newRunCommand(s streams, g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent until a signal ends it",
		Long: `Run the agent of this node in the foreground.

Kernels are not touched when it ends, by whatever signal: the next start takes
them over as they are. "agentd delete" ends sessions.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return runDaemon(ctx, s, g)
		},
	}
	g.addConfigFlag(cmd)
	return cmd
}

// runDaemon is the agent from top to bottom.
func runDaemon(ctx context.Context, s streams, g *globals) error {
	// 1. Configuration, directories, engine client.
	cfg, report, err := g.loadConfig(s)
	if err != nil {
		return err
	}
	log, flush := newLogger(cfg, g.logLevel, s.err)
	defer flush()
	for _, n := range report.Warnings {
		log.Info("configuration", "warning", n.String())
	}
	if cfg.Manager.Enabled {
		return errors.New("manager.enabled is true, but this agentd has no manager's door yet; set [manager] enabled = false to run stand-alone")
	}
	m, err := newMachine(cfg, log, false)
	if err != nil {
		return err
	}
	defer func() { _ = m.engine.Close() }()

	// 2. What is wanted, from the checkpoint. Its lock keeps a second agent out.
	cp, cpReport, err := controller.OpenCheckpoint(checkpointPath(cfg), controller.CheckpointOptions{LockTimeout: checkpointLockWait})
	if err != nil {
		return err
	}
	defer func() { _ = cp.Close() }()
	if cpReport.Damaged != "" {
		log.Info("the checkpoint was damaged and has been set aside; kernels are recognised from the node, nothing is swept", "file", cpReport.Damaged)
	}
	store := controller.NewStore(m.metrics)
	tables := controller.NewTables(store)
	loaded, err := store.Attach(cp)
	if err != nil {
		return err
	}
	for _, name := range loaded.Skipped {
		log.Info("an object in the checkpoint cannot be read and is skipped", "object", name)
	}

	// 3. Controllers over store and node.
	b := &boot{node: m.node, agentID: m.agentID, log: log}
	var info atomic.Pointer[docker.Info]
	m.facts.Engine = func() (string, string) {
		if i := info.Load(); i != nil {
			return i.Version, i.API
		}
		return "", ""
	}
	m.facts.Health = &reconciler.Health{}
	m.facts.Stays = b.leftovers
	b.set = m.newSet(store, tables, m.node, cfg.Agentd.SweepGrace.Duration)
	spec := apis.NodeSpec{AgentID: m.agentID, Version: version, StandAlone: !cfg.Manager.Enabled}
	if err := b.declareNode(spec, !cpReport.Fresh && cpReport.Damaged == "" && len(loaded.Skipped) == 0); err != nil {
		return err
	}

	// 4. What is there: one listing before anything acts, if the engine answers.
	first, cancel := context.WithTimeout(ctx, 10*time.Second)
	listed, err := m.node.Containers.List(first)
	cancel()
	if err != nil {
		log.Error(err, "the engine does not answer yet; agentd keeps trying")
		m.facts.Health.Set(err)
	} else if err := b.seen(ctx, listed); err != nil {
		return err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	wait := b.set.Start(run)

	// 5. The doors.
	ln, err := admin.Listen(string(cfg.Agentd.AdminSocket))
	if err != nil {
		stop()
		wait()
		return err
	}
	server := admin.NewServer(admin.Deps{
		Set: b.set, Declare: intake.NewDeclare(store, tables, b.set.Outbox), Node: m.node, Exec: m.engine, Registry: m.registry,
		Check: func(x intake.Session) error { return m.fits(x) }, Version: version, Log: log,
	})
	dropPID, err := writePID(string(cfg.Agent.PIDFile))
	if err != nil {
		stop()
		wait()
		return err
	}
	defer dropPID()
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(gctx, ln) })
	observer := m.observer(gctx, b)
	group.Go(func() error { return unlessDone(gctx, observer.Run(gctx)) })
	group.Go(func() error { m.askEngine(gctx, &info); return nil })
	group.Go(func() error { b.openGate(gctx); return nil })
	group.Go(func() error { // what a removal left that was cut short
		if err := m.dirs.CleanRemoving(gctx); err != nil && gctx.Err() == nil {
			log.Error(err, "finishing removals of scratches")
		}
		return nil
	})
	group.Go(func() error { return m.serveMetrics(gctx) })
	group.Go(func() error {
		select {
		case <-store.Fatal():
			return fmt.Errorf("the checkpoint cannot be written, and nothing may be done that is not written down: %w", store.Err())
		case <-gctx.Done():
			return nil
		}
	})
	log.Info("agentd is up", "agent", m.agentID, "version", version, "socket", string(cfg.Agentd.AdminSocket), "objects", loaded.Objects)
	notifySystemd("READY=1")
	err = group.Wait()
	notifySystemd("STOPPING=1")
	stop()
	wait()
	log.Info("agentd ends; kernels stay as they are")
	return err
}

// observer feeds hints and listings of the engine to the controllers.
func (m *machine) observer(ctx context.Context, b *boot) *runtime.Observer {
	o := runtime.NewObserver(m.engine, m.engine)
	o.Interval = m.cfg.Agent.SyncContainerLifecycles.Interval.Duration
	o.Wake = func(kernelID string) { b.set.Wake(apis.Key{Kind: apis.KindContainer, Name: kernelID}) }
	o.Seen = func(listed []runtime.ContainerState) {
		if err := b.seen(ctx, listed); err != nil && ctx.Err() == nil {
			m.log.Error(err, "taking in the node's listing")
		}
		if err := m.logs.Prune(keptLogFiles, keptLogAge); err != nil {
			m.log.Error(err, "pruning the kept logs")
		}
	}
	o.Report = func(err error) {
		m.facts.Health.Set(err)
		if err != nil {
			m.log.Error(err, "the engine does not answer; agentd keeps trying")
			return
		}
		m.log.Info("the engine answers")
	}
	return o
}

// unlessDone drops the error of something that ended because it was told to.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// serveMetrics serves the registry at agentd.metrics-addr, if that is set.
func (m *machine) serveMetrics(ctx context.Context) error {
	addr := m.cfg.Agentd.MetricsAddr
	if addr == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	srv := &http.Server{Addr: addr.String(), Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.ListenAndServe(); ctx.Err() == nil {
		return fmt.Errorf("agentd.metrics-addr: %w", err)
	}
	return nil
}

// openGate lets the sweep remove things once every name had one pass over a
// complete state.
func (b *boot) openGate(ctx context.Context) {
	settled, cancel := context.WithTimeout(ctx, firstPass)
	defer cancel()
	_ = b.set.Work.Settle(settled) // a name that keeps failing had its pass
	for ctx.Err() == nil {
		if b.complete() {
			b.set.Sweep.Allow()
			return
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// askEngine learns the engine's version as soon as it answers.
func (m *machine) askEngine(ctx context.Context, into *atomic.Pointer[docker.Info]) {
	for ctx.Err() == nil {
		if i, err := m.engine.Info(ctx); err == nil {
			into.Store(&i)
			return
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// writePID writes the process ID where the configuration wants it.
func writePID(path string) (drop func(), err error) {
	if path == "" || path == os.DevNull {
		return func() {}, nil
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil { //nolint:gosec // it is meant to be read
		return nil, fmt.Errorf("agent.pid-file: %w", err)
	}
	var once sync.Once
	return func() {
		once.Do(func() {
			if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() {
				_ = os.Remove(path)
			}
		})
	}, nil
}

// notifySystemd tells a service manager of the type "notify" how things stand.
func notifySystemd(state string) {
	addr := os.Getenv("NOTIFY_SOCKET")
	if addr == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: addr, Net: "unixgram"})
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte(state))
}
