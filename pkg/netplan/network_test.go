// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewNetwork(t *testing.T) {
	labels := map[string]string{"ai.backend.cluster-network": "1"}
	for _, c := range []struct {
		name   string
		driver Mode
		mtu    int
		want   Network
	}{
		{SingleNodeName("s"), ModeBridge, 0, Network{"bai-singlenode-s", "bridge", false, labels, map[string]string{}}},
		{SingleNodeName("s"), ModeBridge, 9000, Network{"bai-singlenode-s", "bridge", false, labels, map[string]string{"com.docker.network.driver.mtu": "9000"}}},
		{MultiNodeName("s"), ModeOverlay, 0, Network{"bai-multinode-s", "overlay", true, labels, map[string]string{"com.docker.network.driver.mtu": "1500"}}},
	} {
		got, err := NewNetwork(c.name, c.driver, c.mtu)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	for _, c := range []struct {
		name   string
		driver Mode
		mtu    int
	}{{"", ModeBridge, 0}, {"n", ModeHost, 0}, {"n", "macvlan", 0}, {"n", ModeBridge, 1}, {"n", ModeBridge, -1}, {"n", ModeOverlay, 70000}} {
		if got, err := NewNetwork(c.name, c.driver, c.mtu); !errors.Is(err, ErrNetwork) {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}

func TestConnect(t *testing.T) {
	mapping := PortMapping{"sub1": {"10.0.0.2", 30002}, "main1": {"10.0.0.1", 30001}}
	for _, c := range []struct {
		name string
		in   Attachment
		want Connection
	}{
		{"alone", Attachment{Hostname: "main1"}, Connection{Published: true}},
		{"alone on another bridge", Attachment{Hostname: "main1", AlternativeBridge: "br2"}, Connection{NetworkMode: "br2", Published: true}},
		{
			"bridge, whatever the alternative bridge",
			Attachment{Mode: ModeBridge, Network: "bai-singlenode-s", Hostname: "sub1", AlternativeBridge: "br2"},
			Connection{NetworkMode: "bai-singlenode-s", Aliases: []string{"sub1"}, Published: true},
		},
		{
			"overlay",
			Attachment{Mode: ModeOverlay, Network: "bai-multinode-s", Hostname: "sub1", GatewaySubnet: "172.18.0.0/16"},
			Connection{
				NetworkMode: "bai-multinode-s", Aliases: []string{"sub1"}, Published: true,
				EndpointOptions: map[string]string{"com.docker.network.endpoint.ifname": "baimulti0"},
				Env:             map[string]string{"OMPI_MCA_btl_tcp_if_exclude": "127.0.0.1/32,172.18.0.0/16"},
			},
		},
		{
			"overlay without gateway",
			Attachment{Mode: ModeOverlay, Network: "n", Hostname: "sub1"},
			Connection{NetworkMode: "n", Aliases: []string{"sub1"}, Published: true, EndpointOptions: map[string]string{"com.docker.network.endpoint.ifname": "baimulti0"}},
		},
		{
			"host",
			Attachment{Mode: ModeHost, Hostname: "sub1", AlternativeBridge: "br2", Mapping: mapping},
			Connection{NetworkMode: "host", ExtraHosts: []string{"main1:10.0.0.1", "sub1:10.0.0.2"}},
		},
	} {
		got, err := c.in.Connect()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	for _, bad := range []Attachment{
		{Mode: "rdma", Hostname: "a"},
		{Mode: ModeBridge, Hostname: "a"},
		{Mode: ModeBridge, Network: "host", Hostname: "a"},
		{Mode: ModeOverlay, Network: "n", Hostname: "a b"},
		{Mode: ModeOverlay, Network: "n", Hostname: "a", GatewaySubnet: "x"},
	} {
		if got, err := bad.Connect(); !errors.Is(err, ErrNetwork) {
			t.Errorf("%+v: %+v, %v", bad, got, err)
		}
	}
}

func TestPortMapping(t *testing.T) {
	var m PortMapping
	in := `{"main1":["10.0.0.1",30001],"node-k1":["10.0.0.1",30009],"node-k2":["10.0.0.2",30002],"node-k9":["fd00::9",30003]}`
	if err := json.Unmarshal([]byte(in), &m); err != nil {
		t.Fatal(err)
	}
	got, err := m.ByHostname(map[string]string{"k1": "main1", "k2": "sub1"})
	if err != nil {
		t.Fatal(err)
	}
	want := PortMapping{"main1": {"10.0.0.1", 30001}, "sub1": {"10.0.0.2", 30002}, "node-k9": {"fd00::9", 30003}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	out, err := json.Marshal(m)
	if err != nil || string(out) != in {
		t.Errorf("got %s, %v", out, err)
	}
	if got, err := PortMapping(nil).ByHostname(nil); got != nil || err != nil {
		t.Errorf("none: %v, %v", got, err)
	}
	for _, bad := range []PortMapping{{"a b": {"10.0.0.1", 1}}, {"a": {"10.0.0.1", 0}}, {"a": {"10.0.0.1", 65536}}, {"a": {"host", 1}}, {"a": {"", 1}}} {
		if got, err := bad.ByHostname(nil); !errors.Is(err, ErrPortMapping) {
			t.Errorf("%v: %v, %v", bad, got, err)
		}
	}
	for _, bad := range []string{`{"a":[]}`, `{"a":["x"]}`, `{"a":["x","y"]}`, `{"a":[1,2]}`, `{"a":"x:1"}`, `{"a":["x",1,2]}`} {
		if err := json.Unmarshal([]byte(bad), &m); !errors.Is(err, ErrPortMapping) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
