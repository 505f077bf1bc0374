// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
	"agentd/pkg/controller/intake"
)

func TestApplyAndDeleteCluster(t *testing.T) {
	d, c, ctx := start(t)
	var lines []admin.Progress
	if err := c.Apply(ctx, "cluster.yaml", cluster(t), wait, collect(&lines)); err != nil {
		t.Fatal(err)
	}
	if lines[0].Type != admin.ProgressAccepted || lines[0].Session != "demo" {
		t.Errorf("first line %+v", lines[0])
	}
	done := map[string]bool{}
	for _, l := range lines {
		if l.Type == admin.ProgressKernelDone {
			done[l.Host] = l.OK && l.Phase == apis.PhaseRunning
		}
	}
	if diff := cmp.Diff(map[string]bool{"main1": true, "sub1": true, "sub2": true}, done); diff != "" {
		t.Errorf("kernels (-want +got)\n%s", diff)
	}
	if last := lines[len(lines)-1]; last.Type != admin.ProgressResult || !last.OK {
		t.Errorf("last line %+v", last)
	}
	if n := len(d.World.Containers()); n != 3 {
		t.Errorf("%d containers, want 3", n)
	}
	// The same file again is the same wish.
	if last := apply(t, ctx, c, string(cluster(t))); !last.OK {
		t.Errorf("again: %+v", last)
	}
	if n := len(d.World.Containers()); n != 3 {
		t.Errorf("%d containers after the second apply, want 3", n)
	}

	lines = nil
	if err := c.DeleteFile(ctx, "cluster.yaml", cluster(t), wait, collect(&lines)); err != nil {
		t.Fatal(err)
	}
	if last := lines[len(lines)-1]; !last.OK {
		t.Errorf("delete: %+v", last)
	}
	if n := len(d.World.Containers()) + len(d.World.Networks()) + len(d.World.Scratches()); n != 0 {
		t.Errorf("%d things are left on the node", n)
	}
	lines = nil
	if err := c.DeleteFile(ctx, "cluster.yaml", cluster(t), wait, collect(&lines)); err != nil {
		t.Fatal(err)
	}
	if lines[0].Type != admin.ProgressAbsent || !lines[len(lines)-1].OK {
		t.Errorf("deleting twice: %+v", lines)
	}
}

func TestApplyRefuses(t *testing.T) {
	d, c, ctx := start(t)
	if last := apply(t, ctx, c, single); !last.OK {
		t.Fatal(last)
	}
	other := strings.Replace(single, "one", "two", 1)
	for name, x := range map[string]struct {
		file  string
		class error
		text  string
	}{
		"broken":        {"apiVersion: agentd/v1\nkind: X\nspec: {imag: 1}\n", apis.ErrInvalid, "f.yaml:2: kind"},
		"another spec":  {strings.Replace(single, "cpu: 1", "cpu: 2", 1), apis.ErrConflict, "exists with another spec"},
		"name taken":    {strings.Replace(single, "name: one", "name: one, id: 0b0e6a0e-44a5-4b5c-a5b4-0d3c1f9a1c11", 1), apis.ErrConflict, "has the same name"},
		"unknown slot":  {strings.Replace(other, "cpu: 1", "cpu: 1, tpu.device: 1", 1), apis.ErrInvalid, "tpu.device"},
		"too large":     {strings.Replace(other, "cpu: 1", "cpu: 99", 1), apis.ErrInvalid, "cpu"},
		"one of two":    {other + "---\n" + strings.Replace(single, "cpu: 1", "cpu: 2", 1), apis.ErrConflict, "another spec"},
		"far too large": {strings.Repeat("#", 2<<20), apis.ErrInvalid, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Apply(ctx, "f.yaml", []byte(x.file), wait, func(admin.Progress) error { return nil })
			if !errors.Is(err, x.class) {
				t.Fatalf("got %v, want class %v", err, x.class)
			}
			contains(t, err.Error(), x.text)
			if n := len(d.World.Containers()); n != 1 {
				t.Errorf("%d containers, want only the one from before", n)
			}
			if list, err := c.List(ctx, apis.KindClusterSession); err != nil || len(list) != 1 {
				t.Errorf("%d sessions, %v; want only the one from before", len(list), err)
			}
		})
	}
}

func TestApplyTellsFailures(t *testing.T) {
	_, c, ctx := start(t)
	last := apply(t, ctx, c, strings.Replace(single, "busybox:1", "missing:1", 1))
	if last.OK || last.Reason != apis.ReasonFailedToCreate {
		t.Errorf("result %+v", last)
	}
	contains(t, last.Message, "one/main1")
}

func TestApplyTimesOut(t *testing.T) {
	d, c, ctx := start(t)
	d.World.Delay = 300 * time.Millisecond
	var lines []admin.Progress
	err := c.Apply(ctx, "f.yaml", []byte(single), admin.WaitOptions{Wait: true, Timeout: 50 * time.Millisecond}, collect(&lines))
	if err != nil {
		t.Fatal(err)
	}
	last := lines[len(lines)-1]
	if last.OK || last.Reason != "timeout" {
		t.Errorf("result %+v", last)
	}
	// What was asked for goes on, and can be waited for again.
	if last := apply(t, ctx, c, single); !last.OK {
		t.Errorf("second wait %+v", last)
	}
}

func TestFinishedCommandIsNoFailure(t *testing.T) {
	d, c, ctx := start(t)
	file := strings.Replace(single, "slots:", "command: [\"true\"], slots:", 1)
	id := intake.KernelID(intake.SessionID("one"), "main1")
	for _, code := range []int{0, 3} {
		var lines []admin.Progress
		go func() { // it ends as soon as it runs
			for ctx.Err() == nil && !d.World.Exit(id, code) {
				runtime.Gosched()
			}
		}()
		if err := c.Apply(ctx, "f.yaml", []byte(file), wait, collect(&lines)); err != nil {
			t.Fatal(err)
		}
		var done admin.Progress
		for _, l := range lines {
			if l.Type == admin.ProgressKernelDone {
				done = l
			}
		}
		if done.Phase == apis.PhaseTerminated && done.OK != (code == 0) {
			t.Errorf("exit code %d: %+v", code, done)
		}
		if err := d.Set.Tables.Sessions.Reader().Wait(ctx, intake.SessionID("one"), func(s *apis.ClusterSession) bool { return s == nil }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeleteKernel(t *testing.T) {
	_, c, ctx := start(t)
	apply(t, ctx, c, string(cluster(t)))
	var lines []admin.Progress
	if err := c.DeleteKernel(ctx, "demo/sub2", wait, collect(&lines)); err != nil {
		t.Fatal(err)
	}
	if last := lines[len(lines)-1]; !last.OK {
		t.Errorf("%+v", last)
	}
	if _, err := c.Get(ctx, apis.KindKernel, "demo/sub2"); !errors.Is(err, apis.ErrNotFound) {
		t.Errorf("it is still there: %v", err)
	}
	if err := c.DeleteKernel(ctx, "demo/sub9", wait, collect(&lines)); !errors.Is(err, apis.ErrNotFound) {
		t.Errorf("a host that does not exist: %v", err)
	}
	if err := c.DeleteSession(ctx, "nobody", wait, collect(&lines)); !errors.Is(err, apis.ErrNotFound) {
		t.Errorf("a session that does not exist: %v", err)
	}
	// The file does not silently bring the kernel back: its session has lost it.
	err := c.Apply(ctx, "f.yaml", cluster(t), wait, collect(&lines))
	if !errors.Is(err, apis.ErrConflict) {
		t.Errorf("apply of a session that lost a kernel: %v", err)
	}
}

func TestGetByAnyName(t *testing.T) {
	_, c, ctx := start(t)
	apply(t, ctx, c, string(cluster(t)))
	sid := intake.SessionID("demo")
	kid := intake.KernelID(sid, "sub1")
	for _, x := range []struct {
		kind apis.Kind
		ref  string
		want string
	}{
		{apis.KindClusterSession, "demo", sid},
		{apis.KindClusterSession, sid, sid},
		{apis.KindClusterSession, sid[:8], sid},
		{apis.KindKernel, "demo/sub1", kid},
		{apis.KindKernel, kid, kid},
		{apis.KindKernel, kid[:8], kid},
		{apis.KindKernel, sid + "/sub1", kid},
		{apis.KindContainer, "demo/sub1", kid},
		{apis.KindBinding, "demo/sub1", kid},
		{apis.KindScratch, "demo/sub1", kid},
		{apis.KindImage, "agentd.local/busybox:1+local", "agentd.local/busybox:1+local"},
		{apis.KindNetwork, "bai-singlenode-" + sid, "bai-singlenode-" + sid},
		{apis.KindNode, "i-test", "i-test"},
	} {
		raw, err := c.Get(ctx, x.kind, x.ref)
		if err != nil {
			t.Error(err)
			continue
		}
		var o struct {
			Kind      apis.Kind
			apis.Meta `json:"metadata"`
		}
		if err := json.Unmarshal(raw, &o); err != nil || o.Kind != x.kind || o.Name != x.want {
			t.Errorf("%s %q is %s %q, %v; want %q", x.kind, x.ref, o.Kind, o.Name, err, x.want)
		}
	}
	for _, ref := range []string{"nothing", "../../version", "a b", "%2e%2e", "demo/../demo", "", "x\x00y"} {
		if _, err := c.Get(ctx, apis.KindKernel, ref); !errors.Is(err, apis.ErrNotFound) && ref != "" {
			t.Errorf("%q: %v, want ErrNotFound", ref, err)
		}
	}
}

func TestSecretsAreMasked(t *testing.T) {
	_, c, ctx := start(t)
	file := strings.Replace(single, "slots:", "dotfiles: [{path: .x, data: hunter2}], slots:", 1)
	apply(t, ctx, c, file)
	for _, k := range admin.KindNames() {
		list, err := c.List(ctx, k.Kind)
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range list {
			if s := string(raw); strings.Contains(s, "hunter2") || strings.Contains(s, "PRIVATE KEY") {
				t.Errorf("%s shows a secret: %s", k.Kind, s)
			}
		}
	}
}

func TestWatch(t *testing.T) {
	_, c, ctx := start(t)
	errEnough := errors.New("enough")
	ended := make(chan error, 1)
	listed, running := make(chan struct{}), make(chan struct{})
	go func() {
		isRunning := false
		ended <- c.Watch(ctx, apis.KindKernel, func(x admin.Change) error {
			switch x.Type {
			case admin.ChangeListed:
				close(listed)
			case admin.ChangePut:
				var k apis.Kernel
				if err := json.Unmarshal(x.Object, &k); err != nil {
					return err
				}
				if k.Status.Phase == apis.PhaseRunning && !isRunning {
					isRunning = true
					close(running)
				}
			case admin.ChangeGone:
				return errEnough
			}
			return nil
		})
	}()
	<-listed
	apply(t, ctx, c, single)
	<-running // states that pass quickly may be left out, a state that lasts may not
	if err := c.DeleteSession(ctx, "one", wait, func(admin.Progress) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
}

func TestHealthVersionMetrics(t *testing.T) {
	_, c, ctx := start(t)
	v, err := c.Version(ctx)
	if err != nil || v.Version != "test" || v.AgentID != "i-test" {
		t.Errorf("%+v, %v", v, err)
	}
}
