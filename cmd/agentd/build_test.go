// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"testing"

	"agentd/pkg/apis"
	"agentd/pkg/controller/intake"
	"agentd/pkg/slots"
)

// TestFits: what does not fit is said without the session, which the answer to the user begins with.
func TestFits(t *testing.T) {
	devices, err := slots.NewLedger([]slots.Device{
		{Name: "cpu", ID: "0", Slot: "cpu", Type: slots.Count, Capacity: slots.Int(1)},
		{Name: "mem", ID: "root", Slot: "mem", Type: slots.Bytes, Capacity: slots.Int(1 << 30)},
	}, slots.DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{devices: devices}
	for _, c := range []struct {
		name  string
		slots map[string]string
		want  string
	}{
		{"fits", map[string]string{"cpu": "1", "mem": "1048576"}, ""},
		{"too large", map[string]string{"cpu": "9", "mem": "1048576"}, "invalid: it asks for 9 of slot cpu, and this node has 1 in all"},
		{
			"too large in two ways",
			map[string]string{"cpu": "2", "mem": "1073741825"},
			"invalid: it asks for 2 of slot cpu, and this node has 1 in all; it asks for 1073741825 of slot mem, and this node has 1073741824 in all",
		},
		{
			"unknown slot",
			map[string]string{"cpu": "1", "mem": "1", "tpu.device": "1"},
			"kernel k (main1): invalid: slot tpu.device: 1 requested: this node has no such slot",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := m.fits(intake.Session{
				ID: "s", Spec: apis.ClusterSessionSpec{Title: "demo", Kernels: []string{"k"}},
				Kernels: map[string]apis.KernelSpec{"k": {Hostname: "main1", Slots: c.slots}},
			})
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.Is(err, apis.ErrInvalid) || err.Error() != c.want):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
