// SPDX-License-Identifier: Apache-2.0

package docker_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/docker"
	"agentd/test/e2e/engine"
)

const netName = "bai-singlenode-s1"

var bridge = apis.NetworkSpec{Driver: "bridge", SessionID: "s1"}

// TestNetworkInParallel is B063: any number of requests, one network, and none afterwards.
func TestNetworkInParallel(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		fake.Add(engine.Rule{Method: "POST", Path: "/networks/create", Delay: 20 * time.Millisecond})
		nets := e.Networks()
		fake.AddNetwork(netName+"0", "bridge", nil) // the engine's filter finds it, too
		ids := make([]string, 10)
		var all errgroup.Group
		for i := range ids {
			all.Go(func() (err error) {
				ids[i], err = nets.Ensure(t.Context(), netName, bridge)
				return err
			})
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
		made := fake.NetworkIDs(netName)
		if len(made) != 1 {
			t.Fatalf("networks %v, want one", made)
		}
		for _, id := range ids {
			if id != made[0] {
				t.Errorf("got ID %q, want %q", id, made[0])
			}
		}
		labels, _ := fake.NetworkLabels(made[0])
		want := map[string]string{
			apis.LabelClusterNetwork: "1", apis.LabelAgentID: agent, apis.LabelOwner: agent, apis.LabelSessionID: "s1",
		}
		if diff := cmp.Diff(want, labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		for range 3 {
			all.Go(func() error { return nets.Remove(t.Context(), netName) })
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
		if left := fake.NetworkIDs(netName); len(left) != 0 {
			t.Errorf("networks %v left", left)
		}
		if n := len(fake.NetworkIDs(netName + "0")); n != 1 {
			t.Error("the network of a longer name was touched")
		}
	})
}

func TestNetworkMTU(t *testing.T) {
	fake := engine.NewFake(t)
	id, err := open(t, fake.Host()).Networks().Ensure(t.Context(), netName, apis.NetworkSpec{Driver: "bridge", MTU: 8950})
	if err != nil {
		t.Fatal(err)
	}
	_, options := fake.NetworkLabels(id)
	if diff := cmp.Diff(map[string]string{"com.docker.network.driver.mtu": "8950"}, options); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func TestNetworksOfOneName(t *testing.T) {
	ours := map[string]string{apis.LabelClusterNetwork: "1", apis.LabelAgentID: agent}
	python := map[string]string{apis.LabelClusterNetwork: "1"}
	others := map[string]string{apis.LabelClusterNetwork: "1", apis.LabelAgentID: "i-other"}
	for _, tc := range []struct {
		name string
		have []map[string]string
		// want is the index of the network that is taken; -1 for a conflict.
		want int
		// left is how many are there afterwards, removed how many after Remove.
		left, removed int
	}{
		{"ours", []map[string]string{ours}, 0, 1, 0},
		{"made by the Python agent", []map[string]string{python}, 0, 1, 0},
		{"a stranger's", []map[string]string{nil}, -1, 1, 1},
		{"another agent's", []map[string]string{others}, -1, 1, 1},
		{"a stranger's and ours", []map[string]string{nil, ours}, 1, 2, 1},
		{"two strangers'", []map[string]string{nil, others}, -1, 2, 2},
		{"ours twice", []map[string]string{ours, ours}, 0, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
				var ids []string
				for _, labels := range tc.have {
					ids = append(ids, fake.AddNetwork(netName, "bridge", labels))
				}
				got, err := e.Networks().Ensure(t.Context(), netName, bridge)
				if tc.want < 0 {
					wantClass(t, err, apis.ErrConflict, netName, ids[0][:12])
				} else if err != nil || got != ids[tc.want] {
					t.Errorf("got %q, error %v, want %q", got, err, ids[tc.want])
				}
				if n := len(fake.NetworkIDs(netName)); n != tc.left {
					t.Errorf("%d networks, want %d", n, tc.left)
				}
				if err := e.Networks().Remove(t.Context(), netName); err != nil {
					t.Error(err)
				}
				if n := len(fake.NetworkIDs(netName)); n != tc.removed {
					t.Errorf("%d networks after removal, want %d", n, tc.removed)
				}
			})
		})
	}
}

func TestNetworkInUse(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		id, err := e.Networks().Ensure(t.Context(), netName, bridge)
		if err != nil {
			t.Fatal(err)
		}
		s := spec()
		s.NetworkMode = id
		create(t, e, s)
		wantClass(t, e.Networks().Remove(t.Context(), netName), apis.ErrConflict, netName, name)
		list, err := e.Networks().List(t.Context())
		want := []runtime.NetworkState{{ID: id, Name: netName, Driver: "bridge", SessionID: "s1", Endpoints: 1}}
		if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(runtime.NetworkState{}, "CreatedAt")); diff != "" || err != nil {
			t.Errorf("list: error %v (-want +got):\n%s", err, diff)
		}
		fake.Exit(name, 0)
		if err := e.Networks().Remove(t.Context(), netName); err != nil {
			t.Error(err)
		}
	})
}

func TestNetworkDriverDiffers(t *testing.T) {
	fake := engine.NewFake(t)
	nets := open(t, fake.Host()).Networks()
	if _, err := nets.Ensure(t.Context(), netName, apis.NetworkSpec{Driver: "macvlan"}); err != nil {
		t.Fatal(err)
	}
	_, err := nets.Ensure(t.Context(), netName, bridge)
	wantClass(t, err, apis.ErrConflict, "macvlan", "bridge")
}

func TestExternalNetworks(t *testing.T) {
	overlay := apis.NetworkSpec{Driver: "overlay", External: true}
	for _, tc := range []struct {
		name  string
		swarm string
		spec  apis.NetworkSpec
		have  bool
		class error
		words []string
	}{
		{"overlay that is here", "active", overlay, true, nil, nil},
		{"overlay that will come", "active", overlay, false, nil, nil},
		{"overlay without a swarm", "inactive", overlay, false, apis.ErrNotFound, []string{"swarm", "inactive"}},
		{"bridge that is here", "inactive", apis.NetworkSpec{Driver: "bridge", External: true}, true, nil, nil},
		{"bridge that is not", "active", apis.NetworkSpec{Driver: "bridge", External: true}, false, apis.ErrNotFound, []string{netName}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := engine.NewFake(t, engine.WithAPI("1.41"), engine.WithSwarm(tc.swarm))
			want := ""
			if tc.have {
				want = fake.AddNetwork(netName, tc.spec.Driver, nil)
			}
			got, err := open(t, fake.Host()).Networks().Ensure(t.Context(), netName, tc.spec)
			if tc.class != nil {
				wantClass(t, err, tc.class, tc.words...)
				return
			}
			if err != nil || got != want {
				t.Errorf("got %q, error %v, want %q", got, err, want)
			}
			if n := fake.Requests("POST", "/networks"); n != 0 {
				t.Errorf("%d changes, want none", n)
			}
		})
	}
}

func TestNoAddressRangeLeft(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		fake.ExhaustPools()
		_, err := e.Networks().Ensure(t.Context(), netName, bridge)
		wantClass(t, err, apis.ErrUnavailable, netName, "no address range", "default-address-pools")
	})
}

func TestNetworkMadeByAnotherMeanwhile(t *testing.T) {
	fake := engine.NewFake(t)
	ours := map[string]string{apis.LabelClusterNetwork: "1", apis.LabelAgentID: agent}
	id := fake.AddNetwork(netName, "bridge", ours)
	// The first look misses it; the engine then says that it exists.
	fake.Add(engine.Rule{Method: "GET", Path: "/networks", Nth: 1, Status: http.StatusOK, Body: "[]"})
	got, err := open(t, fake.Host()).Networks().Ensure(t.Context(), netName, bridge)
	if err != nil || got != id {
		t.Errorf("got %q, error %v, want %q", got, err, id)
	}
}

func TestNetworkLockHonoursContext(t *testing.T) {
	fake := engine.NewFake(t)
	nets := open(t, fake.Host()).Networks()
	held := fake.Add(engine.Rule{Method: "POST", Path: "/networks/create", Hold: true})
	var first errgroup.Group
	first.Go(func() error {
		_, err := nets.Ensure(t.Context(), netName, bridge)
		return err
	})
	eventually(t, func() bool { return held.Applied() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := nets.Ensure(ctx, netName, bridge); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	held.Release()
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
}
