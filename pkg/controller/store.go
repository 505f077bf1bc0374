// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"agentd/pkg/apis"
)

// Errors of the store.
var (
	// ErrFatal says that the checkpoint could not be written. Nothing is
	// accepted any more: the process must stop, because what it would do next
	// could not be remembered.
	ErrFatal = errors.New("the checkpoint cannot be written")
	// ErrDeleting refuses a change to an object that is being deleted. It is an [apis.ErrConflict].
	ErrDeleting = fmt.Errorf("being deleted: %w", apis.ErrConflict)
)

// Recorder receives the store's measurements; [Metrics] is one.
type Recorder interface {
	// Committed is called for each commit that changed something, with the time it took in seconds.
	Committed(seconds float64)
	// Objects is called with the number of objects of a kind after it may have changed.
	Objects(kind apis.Kind, n int)
}

// Store holds every object. Reads return copies, writes go through
// [Store.Commit], and there is one [Table] for each kind.
//
// An object in the store is never modified: a write replaces it. That is why
// reads inside a transaction need no copy, and why the parts of an object that
// a write leaves alone are shared between the old and the new one.
//
// Each table has two states. Its head is what the last successful transaction
// left behind, and what the next one builds upon; its visible state is what
// everybody else reads. A batch of commits becomes visible when it is on disk.
type Store struct {
	rec    Recorder
	tables map[apis.Kind]table // complete before the first commit

	commitMu sync.Mutex // guards the heads and the fields below
	rev      uint64
	disk     Durable
	err      error  // set once: fatal
	open     *batch // takes in commits; nil: the next commit starts one
	last     *batch // the youngest of all

	flushing chan struct{} // held (by sending) while a batch is written and published

	mu sync.RWMutex // guards the visible states

	subMu   sync.Mutex
	subs    atomic.Pointer[[]*subscription]
	waiters waiters

	fatal chan struct{}
}

// NewStore returns an empty store. rec may be nil.
func NewStore(rec Recorder) *Store {
	s := &Store{
		rec:      rec,
		tables:   map[apis.Kind]table{},
		flushing: make(chan struct{}, 1),
		fatal:    make(chan struct{}),
	}
	s.subs.Store(&[]*subscription{})
	s.waiters.byKey = map[apis.Key][]*waiter{}
	return s
}

// table is a [Table] without its type parameters. Objects travel through it
// as any; nil is an absent object.
type table interface {
	isDurable() bool
	setHead(name string, obj any)                      // commitMu
	setVisible(name string, obj any)                   // mu
	load(name string, data []byte) (*apis.Meta, error) // commitMu and mu
	equal(a, b any) bool                               // but for the revision
	encode(obj any) ([]byte, error)                    //
	visibleNames() []string                            // mu, sorted
	visibleLen() int                                   // mu
}

// Keys returns the key of every object, sorted by kind and name.
func (s *Store) Keys() []apis.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []apis.Key
	for kind, t := range s.tables {
		for _, n := range t.visibleNames() {
			out = append(out, apis.Key{Kind: kind, Name: n})
		}
	}
	slices.SortFunc(out, compareKeys)
	return out
}

func compareKeys(a, b apis.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// Fatal returns a channel that is closed when the checkpoint could not be
// written; [Store.Err] tells why.
func (s *Store) Fatal() <-chan struct{} { return s.fatal }

// Err returns the error that made the store fatal, or nil.
func (s *Store) Err() error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	return s.err
}

// Attach loads the durable kinds from d into their tables and writes through
// to d from then on. It comes after the tables were made and before anything
// durable was committed. It notifies nobody: who needs to know of the loaded
// objects enqueues them.
func (s *Store) Attach(d Durable) (LoadReport, error) {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.disk != nil {
		return LoadReport{}, errors.New("store: a checkpoint is attached already")
	}
	for kind, t := range s.tables {
		if t.isDurable() && t.visibleLen() > 0 {
			return LoadReport{}, fmt.Errorf("store: attach the checkpoint before the first %s is made", kind)
		}
	}
	var report LoadReport
	err := d.Load(func(key apis.Key, data []byte) error {
		t := s.tables[key.Kind]
		if t == nil || !t.isDurable() {
			report.Skipped = append(report.Skipped, fmt.Sprintf("%s: unknown kind", key))
			return nil
		}
		meta, err := t.load(key.Name, data)
		if err != nil {
			report.Skipped = append(report.Skipped, fmt.Sprintf("%s: %v", key, err))
			return nil
		}
		s.rev = max(s.rev, meta.Revision)
		report.Objects++
		return nil
	})
	if err != nil {
		return report, fmt.Errorf("store: load the checkpoint: %w", err)
	}
	s.disk = d
	for kind, t := range s.tables {
		s.countObjects(kind, t)
	}
	return report, nil
}

// countObjects reports the size of one table; s.mu is held.
func (s *Store) countObjects(kind apis.Kind, t table) {
	if s.rec != nil {
		s.rec.Objects(kind, t.visibleLen())
	}
}
