// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"fmt"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// CreateAll stores the sessions of one file: all of them, or none. It differs
// from [Declare.Create] in that a title may belong to one session only, and in
// that new sessions get a key pair.
func (d *Declare) CreateAll(sessions []Session) error {
	sessions = append([]Session(nil), sessions...)
	for i := range sessions {
		s := &sessions[i]
		if err := apis.ValidateSession(s.ID, s.Spec, s.Kernels); err != nil {
			return err
		}
		if _, known := d.sessions.Get(s.ID); s.Spec.KeyPair == nil && !known {
			pair, err := newKeyPair() // takes too long for a transaction
			if err != nil {
				return fmt.Errorf("session %s: %w", s.Spec.Title, err)
			}
			s.Spec.KeyPair = &pair
		}
	}
	return d.store.Commit(func(tx *controller.Tx) error {
		for _, s := range sessions {
			if err := d.createTitled(tx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *Declare) createTitled(tx *controller.Tx, s Session) error {
	have, known := d.sessions.GetIn(tx, s.ID)
	switch {
	case known && have.Deleting:
		return fmt.Errorf("session %s is being deleted: %w; try again when it is gone", s.Spec.Title, apis.ErrConflict)
	case known && !sameSession(have.Spec, s.Spec):
		return fmt.Errorf("session %s exists with another spec: %w; delete it first, or give this one another name", s.Spec.Title, apis.ErrConflict)
	case !known:
		var other string
		d.sessions.Range(tx, func(x *apis.ClusterSession) bool {
			if x.Spec.Title == s.Spec.Title && s.Spec.Title != "" {
				other = x.Name
			}
			return other == ""
		})
		if other != "" {
			return fmt.Errorf("session %s: %w: session %s has the same name; delete it first, or give this one another name", s.Spec.Title, apis.ErrConflict, other)
		}
		if err := d.sessSpec.Apply(tx, controller.SessionMeta(s.ID), s.Spec); err != nil {
			return err
		}
	}
	for _, id := range s.Spec.Kernels {
		if err := d.createTitledKernel(tx, s, id, known); err != nil {
			return err
		}
	}
	return nil
}

// createTitledKernel stores a kernel of a session file. One that has ended in a
// session that lives on is not brought back by a file that has not changed.
func (d *Declare) createTitledKernel(tx *controller.Tx, s Session, id string, sessionKnown bool) error {
	have, known := d.kernels.GetIn(tx, id)
	host := s.Kernels[id].Hostname
	switch {
	case sessionKnown && !known:
		return fmt.Errorf("session %s: %w: its kernel %s has ended; delete the session to start it again", s.Spec.Title, apis.ErrConflict, host)
	case known && !have.Deleting && !sameKernel(have.Spec, s.Kernels[id]):
		return fmt.Errorf("session %s exists with another spec: %w: %s differs; delete it first, or give this one another name", s.Spec.Title, apis.ErrConflict, host)
	}
	if err := d.createKernel(tx, s.ID, id, s.Kernels[id]); err != nil {
		return fmt.Errorf("session %s, host %s: %w", s.Spec.Title, host, err)
	}
	return nil
}
