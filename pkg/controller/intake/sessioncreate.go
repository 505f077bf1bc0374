// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"fmt"
	"reflect"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// Session is a session with all its kernels on this node.
type Session struct {
	ID      string
	Spec    apis.ClusterSessionSpec
	Kernels map[string]apis.KernelSpec
}

// origin is who asks for a session.
type origin int

const (
	// fromManager: sessions are known by their IDs, and kernels may join later.
	fromManager origin = iota
	// fromFile: sessions are known by their titles, and are wanted as a whole.
	fromFile
)

// Create stores the session and its kernels in one transaction, on disk when
// it returns. What is there already in equal form is success; in another form
// it is ErrConflict, and nothing changes. Invalid input is ErrInvalid.
func (d *Declare) Create(s Session) error { return d.create([]Session{s}, fromManager) }

// CreateAll stores the sessions of one file: all of them, or none. It differs
// from [Declare.Create] in that a title may belong to one session only, that
// new sessions get a key pair, and that a kernel that has ended in a session
// that lives on is not brought back by a file that has not changed.
func (d *Declare) CreateAll(sessions []Session) error {
	sessions = append([]Session(nil), sessions...)
	for i := range sessions {
		s := &sessions[i]
		if _, known := d.sessions.Get(s.ID); s.Spec.KeyPair == nil && !known {
			pair, err := newKeyPair() // takes too long for a transaction
			if err != nil {
				return fmt.Errorf("session %s: %w", s.Spec.Title, err)
			}
			s.Spec.KeyPair = &pair
		}
	}
	return d.create(sessions, fromFile)
}

// create is what both ways of asking come to: all of the sessions, or none.
func (d *Declare) create(sessions []Session, from origin) error {
	for _, s := range sessions {
		if err := apis.ValidateSession(s.ID, s.Spec, s.Kernels); err != nil {
			return err
		}
	}
	return d.store.Commit(func(tx *controller.Tx) error {
		for _, s := range sessions {
			if err := d.createSession(tx, s, from); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *Declare) createSession(tx *controller.Tx, s Session, from origin) error {
	name := s.ID
	if from == fromFile {
		name = s.Spec.Title
	}
	have, known := d.sessions.GetIn(tx, s.ID)
	switch {
	case known && have.Deleting:
		return fmt.Errorf("session %s is being deleted: %w; try again when it is gone", name, apis.ErrConflict)
	case known && !sameSession(have.Spec, s.Spec):
		return fmt.Errorf("session %s exists with another spec: %w; delete it first, or give this one another name", name, apis.ErrConflict)
	case !known:
		if other := d.titled(tx, s.Spec.Title); from == fromFile && other != "" {
			return fmt.Errorf("session %s: %w: session %s has the same name; delete it first, or give this one another name", name, apis.ErrConflict, other)
		}
		if err := d.sessSpec.Apply(tx, controller.SessionMeta(s.ID), s.Spec); err != nil {
			return fmt.Errorf("session %s: %w", name, err)
		}
	}
	for _, id := range s.Spec.Kernels {
		host := s.Kernels[id].Hostname
		k, there := d.kernels.GetIn(tx, id)
		switch {
		case !there && known && from == fromFile:
			return fmt.Errorf("session %s: %w: its kernel %s has ended; delete the session to start it again", name, apis.ErrConflict, host)
		case !there:
			if err := d.kernSpec.Apply(tx, controller.KernelMeta(id, s.ID), s.Kernels[id]); err != nil {
				return fmt.Errorf("session %s, host %s: %w", name, host, err)
			}
		case k.Deleting:
			return fmt.Errorf("session %s, host %s: kernel %s is being deleted: %w; try again when it is gone", name, host, id, apis.ErrConflict)
		case !sameKernel(k.Spec, s.Kernels[id]):
			return fmt.Errorf("session %s exists with another spec: %w: %s differs; delete it first, or give this one another name", name, apis.ErrConflict, host)
		}
	}
	return nil
}

// titled returns the ID of the session that has the title; empty when none has.
func (d *Declare) titled(tx *controller.Tx, title string) string {
	var id string
	d.sessions.Range(tx, func(s *apis.ClusterSession) bool {
		if title != "" && s.Spec.Title == title {
			id = s.Name
		}
		return id == ""
	})
	return id
}

// sameSession compares without the key pair, which is made anew for every request without one.
func sameSession(a, b apis.ClusterSessionSpec) bool {
	a.KeyPair, b.KeyPair = nil, nil
	return reflect.DeepEqual(a, b)
}

// sameKernel compares without the incarnation, which grows by itself.
func sameKernel(a, b apis.KernelSpec) bool {
	a.Incarnation, b.Incarnation = 0, 0
	return reflect.DeepEqual(a, b)
}
