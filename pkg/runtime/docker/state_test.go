// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/jsonstream"

	"agentd/pkg/apis"
)

// TestListedPorts shows each port once, over IPv4, in whatever order the engine
// lists it; bindings to several addresses are several ports.
func TestListedPorts(t *testing.T) {
	port := func(ip string, private, public uint16, proto string) container.PortSummary {
		p := container.PortSummary{PrivatePort: private, PublicPort: public, Type: proto}
		if ip != "" {
			p.IP = netip.MustParseAddr(ip)
		}
		return p
	}
	got := listed(container.Summary{Ports: []container.PortSummary{
		port("::", 2200, 30001, "tcp"), port("0.0.0.0", 2200, 30001, "tcp"), port("", 8080, 0, "tcp"), port("0.0.0.0", 53, 30053, "udp"),
		port("127.0.0.1", 7681, 30002, "tcp"), port("10.0.0.1", 7681, 30002, "tcp"), port("::1", 9000, 30003, "tcp"),
	}})
	want := []apis.PortLease{
		{Container: 2200, HostIP: "0.0.0.0", Host: 30001},
		{Container: 7681, HostIP: "10.0.0.1", Host: 30002},
		{Container: 7681, HostIP: "127.0.0.1", Host: 30002},
		{Container: 9000, HostIP: "::1", Host: 30003},
	}
	if diff := cmp.Diff(want, got.Ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestStates(t *testing.T) {
	for state, want := range map[container.ContainerState]apis.ContainerState{
		"created": apis.ContainerCreated, "running": apis.ContainerRunning, "paused": apis.ContainerRunning, "restarting": apis.ContainerRunning,
		"exited": apis.ContainerExited, "dead": apis.ContainerExited, "removing": apis.ContainerExited, "of-tomorrow": apis.ContainerRunning,
	} {
		if got := stateOf(state); got != want {
			t.Errorf("%s: got %s, want %s", state, got, want)
		}
	}
	for status, want := range map[string]int{"Exited (137) 2 minutes ago": 137, "Exited (0) About a minute ago": 0, "Dead": -1, "": -1} {
		if got := exitCodeIn(status); got != want {
			t.Errorf("%q: got %d, want %d", status, got, want)
		}
	}
}

func TestProgressIsThrottled(t *testing.T) {
	var told []string
	p := newPullProgress(func(s string) { told = append(told, s) })
	at := time.Unix(0, 0)
	for i := range 1000 { // ten seconds of one message each 10 ms
		msg := jsonstream.Message{ID: fmt.Sprint(i % 4), Status: "Downloading", Progress: &jsonstream.Progress{Current: int64(i) * 1000, Total: 1_000_000}}
		p.update(msg, at.Add(time.Duration(i)*10*time.Millisecond))
	}
	if len(told) != 20 {
		t.Errorf("%d texts in ten seconds, want 20", len(told))
	}
	for id := range 4 {
		for _, status := range []string{"Verifying Checksum", "Download complete", "Extracting", "Pull complete"} {
			p.update(jsonstream.Message{ID: fmt.Sprint(id), Status: status}, at)
		}
	}
	p.flush()
	p.flush()
	if n := len(told); n != 21 || told[n-1] != "4 of 4 layers, 4.0 of 4.0 MB" {
		t.Errorf("%d texts, the last %q", n, told[n-1])
	}
}
