// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"agentd/pkg/apis"
)

// TestNetworkInParallel is B063 on a real engine.
func TestNetworkInParallel(t *testing.T) {
	n := open(t)
	nets, name := n.Networks(), "bai-singlenode-"+n.id
	spec := apis.NetworkSpec{Driver: "bridge", MTU: 1400, SessionID: "s1"}
	ids := make([]string, 10)
	var all errgroup.Group
	for i := range ids {
		all.Go(func() (err error) {
			ids[i], err = nets.Ensure(t.Context(), name, spec)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	list, err := nets.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != name || list[0].SessionID != "s1" || list[0].Endpoints != 0 {
		t.Fatalf("list %+v, error %v", list, err)
	}
	for _, id := range ids {
		if id != list[0].ID {
			t.Errorf("got ID %s, want %s", id, list[0].ID)
		}
	}
	// Kernels find each other by their aliases, on a network that is named by its ID.
	s1, s2 := n.spec("k1", forever), n.spec("k2", forever)
	s1.NetworkMode, s1.Aliases = ids[0], []string{"main1"}
	s2.NetworkMode, s2.Aliases, s2.Hostname = ids[0], []string{"sub1"}, "sub1"
	n.start(s1)
	id := n.start(s2)
	if out, code := n.sh(id, "ping -c 1 main1 && cat /sys/class/net/eth0/mtu"); code != 0 || !strings.Contains(out, "1400") {
		t.Errorf("ping: code %d, output %q", code, out)
	}
	if list, err = nets.List(t.Context()); err != nil || list[0].Endpoints != 2 {
		t.Errorf("list %+v, error %v, want two endpoints", list, err)
	}
	if err := nets.Remove(t.Context(), name); !errors.Is(err, apis.ErrConflict) || !strings.Contains(err.Error(), s1.EngineName) {
		t.Errorf("got %v, want a conflict that names %s", err, s1.EngineName)
	}
	for _, s := range []apis.ContainerSpec{s1, s2} {
		if err := n.Remove(t.Context(), n.find(s).ID); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		all.Go(func() error { return nets.Remove(t.Context(), name) })
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	if list, err := nets.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("list %+v, error %v, want none", list, err)
	}
}

// TestNetworksOfOneName makes a second network past the agent. Engines before
// API 1.44 allow that; newer ones refuse, and there is nothing to settle.
func TestNetworksOfOneName(t *testing.T) {
	n := open(t)
	name := "bai-singlenode-" + n.id
	id, err := n.Networks().Ensure(t.Context(), name, apis.NetworkSpec{Driver: "bridge"})
	if err != nil {
		t.Fatal(err)
	}
	request := func(method, path, body string) int {
		t.Helper()
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", n.proxy.Socket())
		}}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://engine/v1.40"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode
	}
	code := request("POST", "/networks/create", `{"Name":"`+name+`","Driver":"bridge","Labels":{"whose":"a stranger's"}}`)
	if code != http.StatusCreated && code != http.StatusConflict {
		t.Fatalf("status %d", code)
	}
	again, err := n.Networks().Ensure(t.Context(), name, apis.NetworkSpec{Driver: "bridge"})
	if err != nil || again != id {
		t.Errorf("got %s, error %v, want %s", again, err, id)
	}
	if err := n.Networks().Remove(t.Context(), name); err != nil {
		t.Error(err)
	}
	if code == http.StatusCreated {
		// What is left is the stranger's: named alone by now.
		if got := request("DELETE", "/networks/"+name, ""); got != http.StatusNoContent {
			t.Errorf("the stranger's network is gone: status %d", got)
		}
	}
}

func TestNetworkThatWentAway(t *testing.T) {
	n := open(t)
	name := "bai-singlenode-" + n.id
	if _, err := n.Networks().Ensure(t.Context(), name, apis.NetworkSpec{Driver: "bridge"}); err != nil {
		t.Fatal(err)
	}
	s := n.spec("k1", forever)
	s.NetworkMode = name
	id := n.create(s)
	if err := n.Networks().Remove(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context(), id); err == nil || errors.Is(err, apis.ErrNotFound) {
		t.Errorf("got %v, want an error that does not read as if the container were gone", err)
	}
	_, err := n.Networks().Ensure(t.Context(), name, apis.NetworkSpec{Driver: "overlay", External: true})
	if !errors.Is(err, apis.ErrNotFound) {
		t.Errorf("overlay without a swarm: %v, want not found", err)
	}
}
