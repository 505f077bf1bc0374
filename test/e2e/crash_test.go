// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"testing"
	"time"
)

const (
	post, del = "POST", "DELETE"

	createNetwork   = `^/networks/create`
	removeNetwork   = `^/networks/`
	createContainer = `^/containers/create`
	startContainer  = `^/containers/[^/]+/start`
	stopContainer   = `^/containers/[^/]+/(stop|kill)`
	removeContainer = `^/containers/`
	readLog         = `^/containers/[^/]+/logs`
)

// TestKilledAtAnyMoment: agentd is killed at a moment of a session's creation
// and, started again, at one of its deletion. What was begun is finished as if
// nothing had happened.
func TestKilledAtAnyMoment(t *testing.T) {
	for _, m := range []struct{ making, ending moment }{
		{moment{post, createNetwork, 1, false}, moment{post, stopContainer, 1, false}},
		{moment{post, createNetwork, 1, true}, moment{post, stopContainer, 1, true}},
		{moment{post, createContainer, 1, false}, moment{post, stopContainer, 3, false}},
		{moment{post, createContainer, 1, true}, moment{post, stopContainer, 3, true}},
		{moment{post, createContainer, 3, false}, moment{"GET", readLog, 1, false}},
		{moment{post, createContainer, 3, true}, moment{del, removeContainer, 1, false}},
		{moment{post, startContainer, 1, false}, moment{del, removeContainer, 1, true}},
		{moment{post, startContainer, 1, true}, moment{del, removeContainer, 3, true}},
		{moment{post, startContainer, 3, false}, moment{del, removeNetwork, 1, false}},
		{moment{post, startContainer, 3, true}, moment{del, removeNetwork, 1, true}},
	} {
		t.Run(m.making.String()+", "+m.ending.String(), func(t *testing.T) {
			t.Parallel()
			a, p := behindProxy(t)
			since := time.Now()
			file := a.session("c", 2)

			reached, resume := freeze(p, m.making)
			a.must("apply", "--wait=false", "-f", file)
			a.await(m.making.String(), reached)
			a.kill()
			resume()
			a.start()
			a.must("apply", "-f", file)
			kernels := a.kernels()
			if len(kernels) != 3 {
				t.Fatalf("kernels %q, want 3", kernels)
			}
			a.ids(kernels)
			a.mustBeTold(kernels, "preparing", "creating", "started")

			reached, resume = freeze(p, m.ending)
			a.must("delete", "--wait=false", "-f", file)
			a.await(m.ending.String(), reached)
			a.kill()
			resume()
			a.start()
			a.mustBeClean()
			a.mustBeTold(kernels, "preparing", "creating", "started", "terminating", "terminated")
			for _, k := range kernels {
				if ends := a.ends(k); len(ends) != 1 || ends[0].Reason != "user-requested" {
					t.Errorf("kernel %s ended as %v", k, ends)
				}
			}
			want := map[string]int{}
			for _, k := range kernels {
				want[k] = 1
			}
			if got := a.starts(since); !maps.Equal(got, want) {
				t.Errorf("starts %v, want %v", got, want)
			}
		})
	}
}
