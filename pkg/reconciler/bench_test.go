// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/fake"
	"agentd/pkg/slots"
)

// BenchmarkNoOp10000 measures one pass over a settled node of 10,000 kernels:
// one listing is compared with the store, and every session and kernel is
// looked at and found to be as wanted.
func BenchmarkNoOp10000(b *testing.B) {
	const kernels = 10000 // sessions of one kernel each
	ref := apis.ImageRef{Canonical: "agentd.local/test:1", Local: true}
	world := fake.New(map[string]runtime.ImageState{ref.Canonical: {ID: "sha256:1", Architecture: "x86_64"}})
	node := world.Node()
	store := controller.NewStore(nil)
	tables := controller.NewTables(store)
	ledger, err := slots.NewLedger([]slots.Device{
		{Name: "cpu", ID: "0", Slot: "cpu", Type: slots.Count, Capacity: slots.Int(2 * kernels)},
		{Name: "mem", ID: "root", Slot: "mem", Type: slots.Bytes, Capacity: slots.Int(1 << 50)},
	}, slots.DefaultPolicy())
	if err != nil {
		b.Fatal(err)
	}
	settings := Settings{AgentID: "i-bench", RunnerPath: "/usr/lib/agentd/bai-runner", BindHost: "127.0.0.1", ScratchKind: "hostdir", StartTimeout: time.Hour}
	set := NewSet(store, tables, Config{
		Settings: settings, Node: node, CreationWorkers: 4, SweepGrace: time.Minute, Log: logr.Discard(),
		Ledger: NewLedger(tables, LedgerConfig{Slots: ledger, PortFirst: 1024, PortLast: 65535}),
		Facts: NodeFacts{
			Engine: func() (string, string) { return "", "" }, Health: &Health{}, Stays: func() []string { return nil },
		},
	})
	var keys []apis.Key
	for i := range kernels {
		keys = append(keys, seed(b, store, tables, node, settings, ref, i)...)
	}
	ctx, cancel := context.WithCancel(b.Context())
	wait := set.Start(ctx)
	defer func() { cancel(); wait() }()
	if err := set.Work.Settle(ctx); err != nil {
		b.Fatal(err)
	}
	for _, k := range tables.Kernels.Reader().List()[:10] {
		if !k.Status.Conditions.IsReady(k.Generation) || k.Deleting {
			b.Fatalf("kernel %s is not ready: %+v", k.Name, k.Status)
		}
	}
	before, lists, passes := len(world.Log()), world.Lists(), 0
	for b.Loop() {
		passes++
		listed, err := node.Containers.List(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := set.Seen(listed); err != nil {
			b.Fatal(err)
		}
		for _, k := range keys {
			set.Wake(k)
		}
		if err := set.Work.Settle(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if n := len(world.Log()); n != before {
		b.Fatalf("%d changes to a node that was as wanted: %v", n-before, world.Log()[before:])
	}
	if n := world.Lists() - lists; n != passes {
		b.Fatalf("%d listings in %d passes", n, passes)
	}
}

// seed stores a running kernel with all its parts, as if it had been brought up.
func seed(b *testing.B, store *controller.Store, t *controller.Tables, node runtime.Node, set Settings, ref apis.ImageRef, i int) []apis.Key {
	b.Helper()
	sid, kid := fmt.Sprintf("s%05d", i), fmt.Sprintf("k%05d", i)
	k := &apis.Kernel{Meta: apis.Meta{Name: kid, Generation: 1}, Spec: apis.KernelSpec{
		SessionID: sid, Image: ref, Incarnation: 1, ClusterRole: "main", ClusterIdx: 1, Hostname: "main1",
		Slots: map[string]string{"cpu": "1", "mem": "67108864"}, Environ: map[string]string{},
	}}
	for e := range 60 {
		k.Spec.Environ[fmt.Sprintf("VARIABLE_%02d", e)] = "value of some length"
	}
	s := &apis.ClusterSession{Meta: apis.Meta{Name: sid}, Spec: apis.ClusterSessionSpec{
		Mode: apis.SingleNode, Size: 1, Replicas: map[string]int{"main": 1}, Kernels: []string{kid},
	}}
	in := planInput{
		kernel: k, session: s, image: &apis.Image{Status: apis.ImageStatus{ID: "sha256:1"}},
		binding: &apis.Binding{}, dir: node.Scratches.Path(kid),
	}
	bind, err := BindingFor(in, set)
	if err != nil {
		b.Fatal(err)
	}
	in.binding.Spec = bind
	in.binding.Status.Allocations = apis.Allocations{"cpu": {"cpu": {"0": "1"}}, "mem": {"mem": {"root": "67108864"}}}
	for j, p := range bind.Ports {
		in.binding.Status.Ports = append(in.binding.Status.Ports, apis.PortLease{
			Service: p.Service, Container: p.Container, HostIP: p.HostIP, Host: 2000 + 2*i + j,
		})
	}
	spec, err := ContainerFor(in, set)
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	scratch, err := ScratchFor(in, set)
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := node.Scratches.Ensure(ctx, kid, scratch); err != nil {
		b.Fatal(err)
	}
	id, err := node.Containers.Create(ctx, spec)
	if err != nil {
		b.Fatal(err)
	}
	if err := node.Containers.Start(ctx, id); err != nil {
		b.Fatal(err)
	}
	spec.Run = true
	held := in.binding.Status
	err = store.Commit(func(tx *controller.Tx) error {
		if err := t.Sessions.SpecWriter().Apply(tx, controller.SessionMeta(sid), s.Spec); err != nil {
			return err
		}
		m := manifest{KernelID: kid, SessionID: sid, Session: s.Spec, Kernel: k.Spec, Binding: bind, Held: held, Container: spec}
		return adoptOne(tx, t, m, runtime.ContainerState{
			ID: id, EngineName: spec.EngineName, KernelID: kid, SessionID: sid, Incarnation: 1,
			Hash: apis.ContainerHash(spec), State: apis.ContainerRunning, CreatedAt: time.Now(),
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	return []apis.Key{{Kind: apis.KindClusterSession, Name: sid}, {Kind: apis.KindKernel, Name: kid}}
}
