// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"testing"
)

// TestSingleKernel: one kernel comes up, answers, and goes without a trace.
func TestSingleKernel(t *testing.T) {
	for _, image := range []string{busybox, python, musl, noshell} {
		t.Run(image, func(t *testing.T) {
			a := newAgent(t)
			file := a.apply("one", session("one", image, 0))
			k := a.kernel("main1")
			if got := a.containers(); len(got) != 1 {
				t.Errorf("containers %q, want one", got)
			}
			a.must("delete", "-f", file)
			a.mustBeClean()
			var told []string
			for _, e := range a.events() {
				if e.Kernel == k {
					told = append(told, e.Type)
				}
			}
			want := []string{"kernel_preparing", "kernel_creating", "kernel_started", "kernel_terminating", "kernel_terminated"}
			if !slices.Equal(told, want) {
				t.Errorf("events %q, want %q", told, want)
			}
			if ends := a.ends(k); len(ends) != 1 || ends[0].Reason != "user-requested" {
				t.Errorf("ends %+v, want one with reason user-requested", ends)
			}
		})
	}
}
