// SPDX-License-Identifier: Apache-2.0

// Package admintest runs the controllers of an agent on a node in memory behind
// an admin socket, for tests of the server and of the command line.
package admintest

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/controller/intake"
	"agentd/pkg/reconciler"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/fake"
	"agentd/pkg/slots"
)

// AgentID is the name of the node.
const AgentID = "i-test"

// Image is what the node has.
const Image = "agentd.local/busybox:1"

// Options change a [Daemon]; the zero value is usable.
type Options struct {
	// Disk keeps the durable objects; nil: memory that goes with the daemon.
	Disk controller.Durable
	// Log receives what the daemon logs.
	Log logr.Logger
	// Delay is how long every change to the node takes.
	Delay time.Duration
}

// Daemon is an agent on a node in memory.
type Daemon struct {
	World  *fake.World
	Set    *reconciler.Set
	Server *admin.Server
	// Socket is the path of the admin socket.
	Socket string
	// Logs is what the containers wrote.
	Logs *Logs

	stop func() error
}

// Start runs a daemon with its socket in dir until Stop or the end of ctx.
func Start(ctx context.Context, dir string, opt Options) (*Daemon, error) {
	d := &Daemon{
		World:  fake.New(map[string]runtime.ImageState{Image: {ID: "sha256:0123456789abcdef", Architecture: "x86_64", Env: []string{"PATH=/bin", "FROM=image"}}}),
		Socket: filepath.Join(dir, "agentd.sock"), Logs: newLogs(),
	}
	d.World.Delay = opt.Delay
	registry := prometheus.NewRegistry()
	metrics := controller.NewMetrics(registry)
	store := controller.NewStore(metrics)
	tables := controller.NewTables(store)
	if opt.Disk == nil {
		opt.Disk = controller.NewMemory()
	}
	if _, err := store.Attach(opt.Disk); err != nil {
		return nil, err
	}
	ledger, err := devices()
	if err != nil {
		return nil, err
	}
	node := d.World.Node()
	node.Containers = loggingContainers{node.Containers, d.Logs}
	d.Set = reconciler.NewSet(store, tables, config(tables, node, ledger, metrics, opt.Log))
	err = store.Commit(func(tx *controller.Tx) error {
		return tables.Nodes.SpecWriter().Apply(tx, apis.Meta{Name: AgentID}, apis.NodeSpec{AgentID: AgentID, Version: "test", StandAlone: true})
	})
	if err != nil {
		return nil, err
	}
	d.Server = admin.NewServer(admin.Deps{
		Set: d.Set, Declare: intake.NewDeclare(store, tables, d.Set.Outbox), Node: node, Exec: Shell{},
		Registry: registry, Check: func(s intake.Session) error { return fits(ledger, s) }, Version: "test", Log: opt.Log,
	})
	ln, err := admin.Listen(d.Socket)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stopped := d.Set.Start(ctx)
	var relist sync.WaitGroup
	relist.Go(func() { d.relist(ctx, node) })
	ended := make(chan error, 1)
	go func() { ended <- d.Server.Serve(ctx, ln) }()
	d.stop = sync.OnceValue(func() error {
		cancel()
		err := <-ended
		stopped()
		relist.Wait()
		return err
	})
	return d, nil
}

// relist shows the controllers what happened to the node behind their backs.
func (d *Daemon) relist(ctx context.Context, node runtime.Node) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if listed, err := node.Containers.List(ctx); err == nil {
				_ = d.Set.Seen(listed) // the next listing does as well
			}
		}
	}
}

// Stop ends the daemon and returns what the server returned; twice is as good as once.
func (d *Daemon) Stop() error { return d.stop() }

func devices() (*slots.Ledger, error) {
	var list []slots.Device
	for i := range 8 {
		list = append(list, slots.Device{Name: "cpu", ID: fmt.Sprint(i), Slot: "cpu", Type: slots.Count, Capacity: slots.Int(1)})
	}
	list = append(list, slots.Device{Name: "mem", ID: "root", Slot: "mem", Type: slots.Bytes, Capacity: slots.Int(4 << 30)})
	return slots.NewLedger(list, slots.DefaultPolicy())
}

func config(tables *controller.Tables, node runtime.Node, ledger *slots.Ledger, metrics *controller.Metrics, log logr.Logger) reconciler.Config {
	return reconciler.Config{
		Settings: reconciler.Settings{
			AgentID: AgentID, BindHost: "127.0.0.1", KernelHost: "127.0.0.1", KernelUID: 1000, KernelGID: 1000,
			RunnerPath: "/usr/lib/agentd/bai-runner", ScratchKind: "hostdir",
			StopGrace: time.Second, StartTimeout: 20 * time.Second, LogMaxBytes: 1 << 20,
		},
		Node:            node,
		Ledger:          reconciler.NewLedger(tables, reconciler.LedgerConfig{Slots: ledger, PortFirst: 30000, PortLast: 30255}),
		CreationWorkers: 4, SweepGrace: time.Minute, Log: log, Metrics: metrics,
		Facts: reconciler.NodeFacts{
			Capacity: ledger.Capacity().Texts(),
			Engine:   func() (string, string) { return "fake", "1.41" }, Health: &reconciler.Health{}, Stays: func() []string { return nil },
		},
	}
}

// fits refuses what the node could never run.
func fits(ledger *slots.Ledger, s intake.Session) error {
	for _, id := range slices.Sorted(maps.Keys(s.Kernels)) {
		k := s.Kernels[id]
		request, err := slots.ParseAmounts(k.Slots)
		if err == nil {
			request, err = ledger.Normalize(request)
		}
		if err == nil {
			_, err = ledger.Allocate(nil, request)
		}
		if err != nil {
			return fmt.Errorf("kernel %s: %w", k.Hostname, err)
		}
	}
	return nil
}
