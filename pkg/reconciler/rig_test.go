// SPDX-License-Identifier: Apache-2.0

package reconciler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/controller/intake"
	"agentd/pkg/reconciler"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/fake"
	"agentd/pkg/slots"
)

const testImage = "agentd.local/test:1"

// rig is an agent on a node in memory whose process can be killed at any
// commit and started again on what is on its disk.
type rig struct {
	t     *testing.T
	world *fake.World
	disk  *controller.Memory
	br    breakage
	// fault decides about changes to the world while faulty is set.
	fault  func() fake.Outcome
	faulty atomic.Bool

	set    *reconciler.Set
	tables *controller.Tables
	door   *intake.Declare
	plug   *plug
	stop   func()
	seen   int  // changes of the world that a story has looked at
	adopt  bool // the checkpoint was lost
}

func newRig(t *testing.T, br breakage) *rig {
	r := &rig{
		t: t, br: br, disk: controller.NewMemory(),
		world: fake.New(map[string]runtime.ImageState{testImage: {ID: "sha256:1", Architecture: "x86_64"}}),
	}
	return r
}

// plug is the disk of one process: pulled, nothing reaches it any more.
type plug struct {
	*controller.Memory
	br   breakage
	dead atomic.Bool
	mu   sync.Mutex
	left int // commits until the cut; -1: no cut
	late bool
}

var errCut = errors.New("the power was cut")

func (p *plug) Save(changes []controller.Change) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead.Load() {
		return errCut
	}
	cut := p.left == 0
	if p.left > 0 {
		p.left--
	}
	if cut {
		p.dead.Store(true)
		if !p.late {
			return errCut
		}
	}
	if err := p.Memory.Save(p.br.spoil(changes)); err != nil || cut {
		return errors.Join(err, errCut)
	}
	return nil
}

// spoil takes away what the breakage keeps from the disk.
func (b breakage) spoil(changes []controller.Change) []controller.Change {
	var out []controller.Change
	for _, c := range changes {
		if slices.Contains(b.forget, c.Key.Kind) {
			continue
		}
		if b.noFact && c.Key.Kind == apis.KindContainer && c.Data != nil {
			var o apis.Container
			if json.Unmarshal(c.Data, &o) == nil {
				o.Status.StartedFor = 0
				c.Data, _ = json.Marshal(o)
			}
		}
		out = append(out, c)
	}
	return out
}

// lazyRemoval is a node whose removals of containers do nothing.
type lazyRemoval struct{ runtime.Containers }

func (lazyRemoval) Remove(context.Context, string) error { return nil }

// config is the agent's configuration on a node.
func testConfig(t testing.TB, tables *controller.Tables, node runtime.Node) reconciler.Config {
	t.Helper()
	var devices []slots.Device
	for i := range 64 {
		devices = append(devices, slots.Device{Name: "cpu", ID: fmt.Sprint(i), Slot: "cpu", Type: slots.Count, Capacity: slots.Int(1)})
	}
	devices = append(devices, slots.Device{Name: "mem", ID: "root", Slot: "mem", Type: slots.Bytes, Capacity: slots.Int(64 << 30)})
	ledger, err := slots.NewLedger(devices, slots.DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	return reconciler.Config{
		Settings: reconciler.Settings{
			AgentID: "i-test", BindHost: "127.0.0.1", KernelHost: "127.0.0.1", KernelUID: 1000, KernelGID: 1000,
			RunnerPath: "/usr/lib/agentd/bai-runner", ScratchKind: "hostdir",
			StopGrace: 10 * time.Second, StartTimeout: 10 * time.Hour, LogMaxBytes: 10 << 20,
		},
		Node: node,
		Ledger: reconciler.NewLedger(tables, reconciler.LedgerConfig{
			Slots: ledger, PortFirst: 30000, PortLast: 30255,
		}),
		CreationWorkers: 4, SweepGrace: time.Minute, Log: logr.Discard(),
		Facts: reconciler.NodeFacts{
			Engine: func() (string, string) { return "", "" }, Health: &reconciler.Health{}, Stays: func() []string { return nil },
		},
	}
}

// boot starts the process as the daemon does.
func (r *rig) boot() {
	r.t.Helper()
	r.plug = &plug{Memory: r.disk, br: r.br, left: -1}
	store := controller.NewStore(nil)
	r.tables = controller.NewTables(store)
	if _, err := store.Attach(r.plug); err != nil {
		r.t.Fatal(err)
	}
	mine := r.plug
	r.world.Fault = func(fake.Change) fake.Outcome {
		switch {
		case mine.dead.Load():
			return fake.NotDone // a dead process does nothing
		case r.faulty.Load():
			return r.fault()
		}
		return fake.Works
	}
	node := r.world.Node()
	if r.br.noRemove {
		node.Containers = lazyRemoval{node.Containers}
	}
	set := reconciler.NewSet(store, r.tables, testConfig(r.t, r.tables, node))
	r.set, r.door = set, intake.NewDeclare(store, r.tables, set.Outbox)
	ctx, cancel := context.WithCancel(r.t.Context())
	listed, err := node.Containers.List(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.adopt {
		if _, err := reconciler.Adopt(ctx, store, r.tables, node, listed); err != nil {
			r.t.Fatal(err)
		}
	}
	_ = set.Seen(listed)
	wait := set.Start(ctx)
	var relist sync.WaitGroup
	relist.Go(func() {
		for tick := time.NewTicker(10 * time.Second); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				if listed, err := node.Containers.List(ctx); err == nil {
					_ = set.Seen(listed)
					_, _ = set.Sweep.Run(ctx, listed)
				}
			}
		}
	})
	set.Sweep.Allow()
	r.stop = func() { cancel(); wait(); relist.Wait() }
}

// crash kills the process: nothing it does reaches disk or node any more.
func (r *rig) crash() {
	r.plug.dead.Store(true)
	r.stop()
}

// cutAfter kills the process at a commit that is yet to come.
func (r *rig) cutAfter(commits int, late bool) {
	r.plug.mu.Lock()
	defer r.plug.mu.Unlock()
	r.plug.left, r.plug.late = commits, late
}

func (r *rig) rebootIfDead() {
	if r.plug.dead.Load() {
		r.crash()
		r.boot()
	}
}

// quiet ends the faults and waits until there is nothing left to do.
func (r *rig) quiet() error {
	r.plug.mu.Lock()
	r.plug.left = -1
	r.plug.mu.Unlock()
	r.rebootIfDead() // the last cut may have come in between
	r.faulty.Store(false)
	for range 2 { // what a relist or the sweep finds is work again
		time.Sleep(3 * time.Minute)
		ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Hour)
		err := r.set.Work.Settle(ctx)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// hint tells of a container's change, or leaves it to the next relist.
func (r *rig) hint(kernel string, told bool) {
	if told {
		r.set.Wake(apis.Key{Kind: apis.KindContainer, Name: kernel})
	}
}

func testSession(id string, kernels int) intake.Session {
	s := intake.Session{ID: id, Kernels: map[string]apis.KernelSpec{}, Spec: apis.ClusterSessionSpec{
		Title: id, Mode: apis.SingleNode, Size: kernels, Replicas: map[string]int{"main": 1},
		Network: apis.NetworkAttachment{Mode: apis.NetworkBridge, Name: "bai-singlenode-" + id, Managed: true},
	}}
	if kernels > 1 {
		s.Spec.Replicas["sub"] = kernels - 1
	} else {
		s.Spec.Network = apis.NetworkAttachment{}
	}
	for i := range kernels {
		k := fmt.Sprintf("%s-k%d", id, i)
		role, idx := "sub", i
		if i == 0 {
			role, idx = "main", 1
		}
		s.Spec.Kernels = append(s.Spec.Kernels, k)
		s.Kernels[k] = apis.KernelSpec{
			SessionID: id, Image: apis.ImageRef{Canonical: testImage, Local: true}, Incarnation: 1,
			ClusterRole: role, ClusterIdx: idx, LocalRank: i, Hostname: fmt.Sprintf("%s%d", role, idx),
			Slots: map[string]string{"cpu": "1", "mem": "67108864"},
		}
	}
	return s
}

// create asks for a session; false if the process died over it without having it on disk.
func (r *rig) create(id string, kernels int) bool {
	err := r.door.Create(testSession(id, kernels))
	return err == nil || r.onDisk(apis.Key{Kind: apis.KindClusterSession, Name: id})
}

// onDisk tells whether a request whose answer was lost was taken in all the same.
func (r *rig) onDisk(k apis.Key) bool {
	found := false
	_ = r.disk.Load(func(have apis.Key, _ []byte) error {
		found = found || have == k
		return nil
	})
	return found
}

// delete asks for the end of a session and says whether that is sure to come.
func (r *rig) delete(id string) bool {
	err := r.door.DestroySession(id, apis.ReasonUserRequested, "")
	switch {
	case err == nil, errors.Is(err, apis.ErrNotFound):
		return true
	}
	r.rebootIfDead()
	return r.delete(id)
}

func (r *rig) restart(kernel string) bool {
	err := r.door.Restart(kernel, nil)
	return !errors.Is(err, apis.ErrNotFound) && !errors.Is(err, apis.ErrConflict)
}
