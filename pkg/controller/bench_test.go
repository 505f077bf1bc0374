// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

type kernels = controller.Table[apis.KernelSpec, apis.KernelStatus]

func kernelWorld() (*controller.Store, *kernels) {
	s := controller.NewStore(nil)
	return s, controller.NewTable[apis.KernelSpec, apis.KernelStatus](s, apis.KindKernel, true)
}

func smallKernel() apis.KernelSpec {
	return apis.KernelSpec{
		SessionID: "s", Image: apis.ImageRef{Canonical: "registry/project/name:tag"}, Incarnation: 1, Hostname: "main1",
		Slots: map[string]string{"cpu": "1", "mem": "1073741824"},
	}
}

func largeKernel() apis.KernelSpec {
	k := smallKernel()
	k.Environ = map[string]string{}
	for i := range 60 {
		k.Environ[fmt.Sprintf("BACKENDAI_VARIABLE_%02d", i)] = strings.Repeat("v", 40)
	}
	k.Command = strings.Fields("python -m ai.backend.kernel --debug")
	for i := range 10 {
		k.Mounts = append(k.Mounts, apis.Mount{Source: fmt.Sprint("/vfroot/", i), Target: fmt.Sprint("/home/work/", i)})
	}
	return k
}

func applyKernel(b *testing.B, s *controller.Store, t *kernels, name string, spec apis.KernelSpec) {
	b.Helper()
	if err := s.Commit(func(tx *tx) error {
		return t.SpecWriter().Apply(tx, apis.Meta{Name: name, Finalizers: []string{"kernel"}}, spec)
	}); err != nil {
		b.Fatal(err)
	}
}

func observeReady(s *controller.Store, t *kernels, name string, generation int64) error {
	return s.Commit(func(tx *tx) error {
		return t.StatusWriter().Observe(tx, name, func(_ *apis.Meta, st *apis.KernelStatus) { st.Conditions.SetReady(generation) })
	})
}

func BenchmarkObserve(b *testing.B) {
	s, t := kernelWorld()
	applyKernel(b, s, t, "a", largeKernel())
	b.Run("change", func(b *testing.B) {
		b.ReportAllocs()
		for i := int64(1); b.Loop(); i++ {
			if err := observeReady(s, t, "a", i); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("no change", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := observeReady(s, t, "a", 7); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkApplyNoChange(b *testing.B) {
	s, t := kernelWorld()
	b.ReportAllocs()
	for spec := largeKernel(); b.Loop(); {
		applyKernel(b, s, t, "a", spec)
	}
}

func BenchmarkGet(b *testing.B) {
	s, t := kernelWorld()
	applyKernel(b, s, t, "small", smallKernel())
	applyKernel(b, s, t, "large", largeKernel())
	for _, name := range []string{"small", "large"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t.Reader().Get(name)
			}
		})
	}
}

func BenchmarkList200(b *testing.B) {
	s, t := kernelWorld()
	for i := range 200 {
		applyKernel(b, s, t, fmt.Sprint(i), smallKernel())
	}
	b.ReportAllocs()
	for b.Loop() {
		t.Reader().List()
	}
}

// BenchmarkNoOpPass is one pass over 10,000 kernels with their three parts
// each: 40,000 names, for each a reconciler that reads its object.
func BenchmarkNoOpPass(b *testing.B) {
	const n = 10_000
	s := controller.NewStore(nil)
	var work controller.Work
	var all []*controller.Controller
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("kernel-%05d", i)
	}
	kernel := controller.NewTable[apis.KernelSpec, apis.KernelStatus](s, apis.KindKernel, true)
	binding := controller.NewTable[apis.BindingSpec, apis.BindingStatus](s, apis.KindBinding, true)
	scratch := controller.NewTable[apis.ScratchSpec, apis.ScratchStatus](s, apis.KindScratch, false)
	container := controller.NewTable[apis.ContainerSpec, apis.ContainerStatus](s, apis.KindContainer, true)
	if err := s.Commit(func(tx *tx) error {
		for _, name := range names {
			m := apis.Meta{Name: name, Finalizers: []string{"f"}}
			_ = kernel.SpecWriter().Apply(tx, m, smallKernel())
			_ = binding.SpecWriter().Apply(tx, m, apis.BindingSpec{Slots: map[string]string{"cpu": "1"}})
			_ = scratch.SpecWriter().Apply(tx, m, apis.ScratchSpec{})
			_ = container.SpecWriter().Apply(tx, m, apis.ContainerSpec{EngineName: name, Env: []string{"A=1", "B=2"}, Labels: map[string]string{"a": "b"}})
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	add := func(kind apis.Kind, workers int, get func(name string) bool) {
		c := controller.New(kind, controller.ReconcilerFunc(func(_ context.Context, name string) (controller.Result, error) {
			if !get(name) {
				b.Error("missing", name)
			}
			return controller.Result{}, nil
		}), &work, controller.Options{Workers: workers})
		c.Attach(s)
		all = append(all, c)
	}
	add(apis.KindKernel, 8, func(n string) bool { _, ok := kernel.Reader().Get(n); return ok })
	add(apis.KindBinding, 1, func(n string) bool { _, ok := binding.Reader().Get(n); return ok })
	add(apis.KindScratch, 4, func(n string) bool { _, ok := scratch.Reader().Get(n); return ok })
	add(apis.KindContainer, 4, func(n string) bool { _, ok := container.Reader().Get(n); return ok })
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	for _, c := range all {
		wg.Go(func() { c.Run(ctx) })
	}
	runtime.GC()
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range all {
			c.Enqueue(names...)
		}
		if err := work.Settle(ctx); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(4*n), "ns/name")
	cancel()
	wg.Wait()
}

// BenchmarkCheckpointCommit writes four objects of 6 KiB in one commit, as a
// kernel's first step does.
func BenchmarkCheckpointCommit(b *testing.B) {
	data := []byte(strings.Repeat("x", 6<<10))
	for _, writers := range []int{1, 8} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			c, _ := open(b, filepath.Join(b.TempDir(), "checkpoint"))
			w := newWorld()
			if _, err := w.Attach(c); err != nil {
				b.Fatal(err)
			}
			var wg sync.WaitGroup
			b.ResetTimer()
			for n := range writers {
				wg.Go(func() {
					for i := n; i < b.N; i += writers {
						if err := w.Commit(func(tx *tx) error {
							for o := range 4 {
								if err := w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: fmt.Sprint(n, "-", o)}, boxSpec{Size: i, Tags: []string{string(data)}}); err != nil {
									return err
								}
							}
							return nil
						}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
