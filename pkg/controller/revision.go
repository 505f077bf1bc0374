// SPDX-License-Identifier: Apache-2.0

package controller

// Revision returns the revision of an object without copying it, or 0 while it
// is absent. Who has seen an object at a revision need not look again.
func (r Reader[S, T]) Revision(name string) uint64 {
	r.t.s.mu.RLock()
	defer r.t.s.mu.RUnlock()
	if o := r.t.visible[name]; o != nil {
		return o.Revision
	}
	return 0
}
