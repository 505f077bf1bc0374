// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"maps"
	"slices"
	"sync"

	"agentd/pkg/apis"
)

// Change is the new form of one object for the disk.
type Change struct {
	Key apis.Key
	// Data is the object as JSON; nil when the object was removed.
	Data []byte
}

// Durable keeps objects beyond the life of the process.
type Durable interface {
	// Load calls fn for each object. fn may keep data.
	Load(fn func(key apis.Key, data []byte) error) error
	// Save applies the changes, in order, all or nothing; they are safe when it returns.
	Save(changes []Change) error
	Close() error
}

// LoadReport tells what was found when a [Durable] was attached.
type LoadReport struct {
	// Objects is the number of objects loaded.
	Objects int
	// Skipped names the objects of unknown kind or that could not be decoded, and why. They stay where they are.
	Skipped []string
}

// Memory is a [Durable] in memory, for tests and for the dry run.
type Memory struct {
	mu   sync.Mutex
	data map[apis.Key][]byte
}

// NewMemory returns an empty one.
func NewMemory() *Memory { return &Memory{data: map[apis.Key][]byte{}} }

// Clone returns a copy that lives its own life.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Memory{data: maps.Clone(m.data)} // the values are never modified
}

// Load calls fn for each object, by key.
func (m *Memory) Load(fn func(key apis.Key, data []byte) error) error {
	c := m.Clone()
	for _, k := range slices.SortedFunc(maps.Keys(c.data), compareKeys) {
		if err := fn(k, slices.Clone(c.data[k])); err != nil {
			return err
		}
	}
	return nil
}

// Save applies the changes; it never fails.
func (m *Memory) Save(changes []Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		if c.Data == nil {
			delete(m.data, c.Key)
		} else {
			m.data[c.Key] = slices.Clone(c.Data)
		}
	}
	return nil
}

// Close does nothing.
func (m *Memory) Close() error { return nil }
