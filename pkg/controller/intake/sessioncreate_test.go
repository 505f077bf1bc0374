// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"errors"
	"strings"
	"testing"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// newDoor returns a door whose controllers never run, with its tables.
func newDoor() (*Declare, *controller.Tables) {
	s := controller.NewStore(nil)
	t := controller.NewTables(s)
	return NewDeclare(s, t, controller.NewOutbox(t)), t
}

func TestCreateAllIsAllOrNothing(t *testing.T) {
	d, tables := newDoor()
	one := parseOne(t, head+"spec: {image: i}\n")
	two := parseOne(t, strings.Replace(head, "demo", "two", 1)+"spec: {image: i}\n")
	if err := d.CreateAll([]Session{one}); err != nil {
		t.Fatal(err)
	}
	other := parseOne(t, head+"spec: {image: j}\n")
	if err := d.CreateAll([]Session{two, other}); !errors.Is(err, apis.ErrConflict) {
		t.Errorf("got %v, want ErrConflict", err)
	}
	if n := tables.Sessions.Reader().Len(); n != 1 {
		t.Errorf("%d sessions, want only the first", n)
	}
	if err := d.CreateAll([]Session{two, one}); err != nil {
		t.Error(err)
	}
}

func TestCreateAllKeepsKeys(t *testing.T) {
	d, tables := newDoor()
	s := parseOne(t, head+"spec: {image: i}\n")
	for range 2 {
		if err := d.CreateAll([]Session{s}); err != nil {
			t.Fatal(err)
		}
	}
	if s.Spec.KeyPair != nil {
		t.Error("the caller's session was changed")
	}
	have, _ := tables.Sessions.Reader().Get(s.ID)
	if have.Spec.KeyPair == nil || have.Generation != 1 {
		t.Errorf("key pair %v, generation %d", have.Spec.KeyPair, have.Generation)
	}
}

func TestCreateAllRefusesWhatIsGoing(t *testing.T) {
	d, _ := newDoor()
	s := parseOne(t, head+"spec: {image: i}\n")
	if err := d.CreateAll([]Session{s}); err != nil {
		t.Fatal(err)
	}
	if err := d.DestroySession(s.ID, "test", ""); err != nil {
		t.Fatal(err)
	}
	err := d.CreateAll([]Session{s})
	if !errors.Is(err, apis.ErrConflict) || !strings.Contains(err.Error(), "try again when it is gone") {
		t.Errorf("got %v", err)
	}
}
