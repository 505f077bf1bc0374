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

// TestFilesAndManagersAsk differently for what is there in part: a file speaks
// of a whole session, a manager of kernels that may join.
func TestFilesAndManagersAsk(t *testing.T) {
	kernelEnds := func(d *Declare, tables *controller.Tables, s *Session) error {
		id := s.Spec.Kernels[0]
		return d.store.Commit(func(tx *controller.Tx) error {
			tables.Kernels.SpecWriter().Delete(tx, id, "test", "")
			return tables.Kernels.StatusWriter().Observe(tx, id, func(m *apis.Meta, _ *apis.KernelStatus) { m.DropFinalizer(controller.FinalizerKernel) })
		})
	}
	editing := func(edit func(s *Session, k *apis.KernelSpec)) func(*Declare, *controller.Tables, *Session) error {
		return func(_ *Declare, _ *controller.Tables, s *Session) error {
			k := s.Kernels[s.Spec.Kernels[0]]
			edit(s, &k)
			s.Kernels = map[string]apis.KernelSpec{s.Spec.Kernels[0]: k}
			return nil
		}
	}
	for _, c := range []struct {
		name          string
		change        func(*Declare, *controller.Tables, *Session) error
		file, manager string // what the error says; empty for success
	}{
		{"nothing changed", editing(func(*Session, *apis.KernelSpec) {}), "", ""},
		{
			"another spec of the session", editing(func(s *Session, _ *apis.KernelSpec) { s.Spec.Network.Mode = apis.NetworkHost }),
			"session demo exists with another spec", "session ID exists with another spec",
		},
		{
			"another spec of a kernel", editing(func(_ *Session, k *apis.KernelSpec) { k.Image.Canonical = "other" }),
			"session demo exists with another spec: conflict: main1 differs", "session ID exists with another spec: conflict: main1 differs",
		},
		{"a kernel has ended", kernelEnds, "session demo: conflict: its kernel main1 has ended", ""},
		{
			"another session has the title", editing(func(s *Session, k *apis.KernelSpec) {
				s.ID, s.Spec.Kernels = "11111111-1111-4111-8111-111111111111", []string{"22222222-2222-4222-8222-222222222222"}
				k.SessionID = s.ID
			}),
			"session demo: conflict: session ID has the same name", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for want, create := range map[*string]func(*Declare, Session) error{
				&c.file:    func(d *Declare, s Session) error { return d.CreateAll([]Session{s}) },
				&c.manager: func(d *Declare, s Session) error { return d.Create(s) },
			} {
				d, tables := newDoor()
				s := parseOne(t, head+"spec: {image: i}\n")
				first := s.ID
				if err := create(d, s); err != nil {
					t.Fatal(err)
				}
				if err := c.change(d, tables, &s); err != nil {
					t.Fatal(err)
				}
				err := create(d, s)
				text := strings.ReplaceAll(*want, "ID", first)
				switch {
				case text == "" && err != nil:
					t.Errorf("got %v, want success", err)
				case text != "" && (!errors.Is(err, apis.ErrConflict) || !strings.HasPrefix(err.Error(), text)):
					t.Errorf("got %v, want %s", err, text)
				}
			}
		})
	}
}
