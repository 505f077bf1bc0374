// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"sync"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/runtime"
)

// Differing compares a complete listing of the node's containers with what the
// store last saw of them, and returns the names to look at: those that changed
// and those that are absent. It decides nothing; the reconciler that is woken
// takes a direct look.
func Differing(s *controller.Store, t *controller.Tables, listed []runtime.ContainerState) ([]string, error) {
	byName := make(map[string]*runtime.ContainerState, len(listed))
	for i := range listed {
		byName[listed[i].EngineName] = &listed[i]
	}
	var out []string
	containers := t.Containers.Reader()
	err := s.Commit(func(tx *controller.Tx) error {
		containers.Range(tx, func(c *apis.Container) bool {
			seen, ok := byName[c.Spec.EngineName]
			st := &c.Status
			same := ok && seen.ID == st.ID && seen.State == st.State
			if !ok {
				same = st.State == "" || st.State == apis.ContainerGone
			}
			if !same || c.Deleting {
				out = append(out, c.Name)
			}
			return true
		})
		return nil
	})
	return out, err
}

// Health remembers whether the engine answers; the node reconciler shows it.
type Health struct {
	mu  sync.Mutex
	err error
	set bool
}

// Set notes the outcome of the last call.
func (h *Health) Set(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err, h.set = err, true
}

// Get returns the outcome of the last call; known is false before the first.
func (h *Health) Get() (err error, known bool) { //nolint:revive // the error is the value here
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err, h.set
}
