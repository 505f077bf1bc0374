// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"time"

	"agentd/pkg/apis"
)

// Tx is one transaction: what [Store.Commit] hands to its function. It is
// valid only while that function runs, and only in its goroutine.
type Tx struct {
	s      *Store
	writes []write
	index  map[apis.Key]int // position in writes; made when a search gets long
}

// write is the replacement of one object.
type write struct {
	table         table
	key           apis.Key
	old, obj      any        // typed pointers, or plain nil for absent
	oldMeta, meta *apis.Meta // theirs
	holdsOnly     bool       // nothing but the list of holds differs
}

// batch is a group of commits that reach the disk, and the readers, together.
type batch struct {
	writes  []write
	changes []Change // the durable ones of writes
	err     error
	done    chan struct{} // closed when published and notified, or failed
}

// Commit runs fn and applies what it staged: all of it, or nothing if fn
// returns an error. Durable kinds are on disk before the change is visible to
// anybody. Subscribers have been told when Commit returns. A commit that
// changes nothing writes nothing and notifies nobody.
//
// fn must not block, and must not call Commit or wait for another commit. It
// reads through the transaction: plain reads do not see what it staged, nor
// what is on its way to the disk.
func (s *Store) Commit(fn func(tx *Tx) error) error {
	begin := time.Now()
	b, role, err := s.stage(fn)
	if err != nil {
		return err
	}
	if b == nil {
		return nil // nothing was ever committed
	}
	if role == leader {
		s.flush(b)
	} else {
		<-b.done
	}
	if role != bystander && b.err == nil && s.rec != nil {
		s.rec.Committed(time.Since(begin).Seconds())
	}
	return b.err
}

// role is what a commit has to do with its batch.
type role int

const (
	bystander role = iota // changed nothing, but what it read may still be on its way to the disk
	member                // waits until the leader has written its changes
	leader                // writes the batch
)

// stage runs fn on the heads, adds its writes to the open batch and tells what
// the caller is there. A bystander has to wait too: it must not act on what it
// read before that is on the disk.
func (s *Store) stage(fn func(tx *Tx) error) (*batch, role, error) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if s.err != nil {
		return nil, bystander, s.err
	}
	tx := &Tx{s: s}
	defer func() { tx.s = nil }() // a use after the end fails loudly
	if err := fn(tx); err != nil {
		return nil, bystander, err
	}
	writes, changes, err := tx.resolve()
	if err != nil {
		return nil, bystander, err
	}
	if len(writes) == 0 {
		return s.last, bystander, nil
	}
	for _, w := range writes {
		w.table.setHead(w.key.Name, w.obj)
	}
	r := member
	if s.open == nil {
		s.open = &batch{done: make(chan struct{})}
		s.last = s.open
		r = leader
	}
	s.open.writes = append(s.open.writes, writes...)
	s.open.changes = append(s.open.changes, changes...)
	return s.open, r, nil
}

// flush makes a batch durable, then visible, then known. Batches follow one
// another: while one is being written the next takes in further commits, so
// that a slow disk costs waiting, not throughput.
func (s *Store) flush(b *batch) {
	defer close(b.done)
	if b.err = s.publish(b); b.err == nil {
		s.notify(b.writes)
	}
	b.writes, b.changes = nil, nil // the store remembers its last batch
}

func (s *Store) publish(b *batch) error {
	s.flushing <- struct{}{}
	defer func() { <-s.flushing }()
	s.commitMu.Lock()
	s.open = nil // sealed
	disk, err := s.disk, s.err
	s.commitMu.Unlock()
	if err != nil {
		return err
	}
	if len(b.changes) > 0 {
		if err := disk.Save(b.changes); err != nil {
			return s.fail(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range b.writes {
		w.table.setVisible(w.key.Name, w.obj)
		if i+1 == len(b.writes) || b.writes[i+1].key.Kind != w.key.Kind {
			s.countObjects(w.key.Kind, w.table)
		}
	}
	return nil
}

// fail makes the store fatal.
func (s *Store) fail(err error) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	s.err = fmt.Errorf("%w: %w", ErrFatal, err)
	close(s.fatal)
	return s.err
}

// resolve returns what really changed. Objects that are being deleted and have
// no finalizer left go here.
func (tx *Tx) resolve() ([]write, []Change, error) {
	out := tx.writes[:0]
	var changes []Change
	for _, w := range tx.writes {
		if w.meta.Deleting && len(w.meta.Finalizers) == 0 {
			w.obj, w.meta = nil, nil
			if w.old == nil {
				continue
			}
		} else if w.old != nil && w.table.equal(w.old, w.obj) {
			continue
		}
		if w.meta != nil {
			tx.s.rev++
			w.meta.Revision = tx.s.rev
		}
		if tx.s.disk != nil && w.table.isDurable() {
			c := Change{Key: w.key}
			if w.obj != nil {
				data, err := w.table.encode(w.obj)
				if err != nil {
					return nil, nil, fmt.Errorf("%s cannot be written to the checkpoint: %w", w.key, err)
				}
				c.Data = data
			}
			changes = append(changes, c)
		}
		out = append(out, w)
	}
	return out, changes, nil
}

// searchLimit is the number of writes up to which a search beats an index.
const searchLimit = 8

// find returns the staged write of key, or nil.
func (tx *Tx) find(key apis.Key) *write {
	if tx.s == nil {
		panic("controller: a transaction is used after its end")
	}
	if tx.index != nil {
		if i, ok := tx.index[key]; ok {
			return &tx.writes[i]
		}
		return nil
	}
	for i := range tx.writes {
		if tx.writes[i].key == key {
			return &tx.writes[i]
		}
	}
	return nil
}

// add stages the first write of a key.
func (tx *Tx) add(w write) {
	if tx.index == nil && len(tx.writes) == searchLimit {
		tx.index = make(map[apis.Key]int, 4*searchLimit)
		for i := range tx.writes {
			tx.index[tx.writes[i].key] = i
		}
	}
	if tx.index != nil {
		tx.index[w.key] = len(tx.writes)
	}
	tx.writes = append(tx.writes, w)
}
