// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

func TestAgentID(t *testing.T) {
	const vm = "13f56399-bd52-4150-9748-7190aae1ff21"
	cases := []struct {
		name, configured, host string
		in                     Instance
		want                   string
	}{
		{name: "configured", configured: "mine", host: "h", in: Instance{Cloud: Amazon, ID: "i-1"}, want: "mine"},
		{name: "on premise", host: "node01", want: "i-node01"},
		{name: "no host name", want: "agent-fresh"},
		{name: "Amazon", host: "h", in: Instance{Cloud: Amazon, ID: "i-0abc"}, want: "i-0abc"},
		{name: "Amazon without an ID", host: "h", in: Instance{Cloud: Amazon}, want: "i-h"},
		// 90 aa e1 ff 21 in base32.
		{name: "Azure", host: "h", in: Instance{Cloud: Azure, Name: "vm1", ID: vm}, want: "i-vm1-scvod7zb"},
		{name: "Azure with a broken ID", host: "h", in: Instance{Cloud: Azure, Name: "vm1", ID: "x"}, want: "i-h"},
		// The last five bytes of the number: 00 00 00 00 01 in base32.
		{name: "Google", host: "h", in: Instance{Cloud: Google, Name: "gce", Number: 1}, want: "i-gce-aaaaaaab"},
		{name: "Google, large", host: "h", in: Instance{Cloud: Google, Name: "gce", Number: 0x123456_90aae1ff21}, want: "i-gce-scvod7zb"},
		{name: "Google without a name", host: "h", in: Instance{Cloud: Google, Number: 1}, want: "i-h"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := AgentID(tc.configured, tc.host, tc.in, func() string { return "fresh" }); got != tc.want {
				t.Errorf("AgentID = %q, want %q", got, tc.want)
			}
		})
	}
}
