// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

// schemaVersion is the form of the checkpoint: one bucket for each kind, in it
// the objects as JSON by name, and a bucket that says which schema it is.
const (
	schemaVersion = "1"
	schemaBucket  = "agentd.schema"
	schemaKey     = "version"
)

// Errors of opening a checkpoint.
var (
	// ErrInUse says that another process has the checkpoint open.
	ErrInUse = errors.New("in use by another agentd process: stop that one first")
	// ErrDamaged says that the content of a checkpoint cannot be used.
	ErrDamaged = errors.New("damaged checkpoint")
)

// CheckpointOptions say how to open a checkpoint.
type CheckpointOptions struct {
	// ReadOnly opens it beside other readers, but not beside a daemon. A file
	// that is missing or damaged is an error then, and left as it is.
	ReadOnly bool
	// LockTimeout is how long to wait for another process to let go of it.
	LockTimeout time.Duration
}

// CheckpointReport tells what was found on opening.
type CheckpointReport struct {
	// Fresh tells that nothing is known from before: the file was made just now.
	Fresh bool
	// Damaged is the path to which an unusable file was moved, or empty.
	Damaged string
	// Reason tells why that file was unusable.
	Reason error
}

// Checkpoint is the [Durable] on disk: one bbolt file, readable by its owner
// only because it holds secrets. Each Save is on the disk when it returns.
type Checkpoint struct {
	path string
	file *os.File
	db   *bolt.DB

	// fault is set when bbolt was thrown out of its work. It may hold its own
	// locks then, for ever: nobody goes in again.
	fault atomic.Pointer[error]
}

// OpenCheckpoint opens the checkpoint, or makes an empty one. A file that
// cannot be used (truncated, damaged, not a checkpoint, of another schema) is
// renamed to path.damaged-TIME and replaced by an empty one; the report says
// so, and why. A file that another process uses is an [ErrInUse].
func OpenCheckpoint(path string, opt CheckpointOptions) (*Checkpoint, CheckpointReport, error) {
	var report CheckpointReport
	for {
		c, fresh, err := openOnce(path, opt)
		var bad *unusable
		if errors.As(err, &bad) && report.Damaged == "" {
			report.Damaged, report.Reason = bad.movedTo, bad.reason
			continue
		}
		if err != nil {
			return nil, report, fmt.Errorf("checkpoint %s: %w", path, err)
		}
		report.Fresh = fresh
		return c, report, nil
	}
}

// unusable says that a file was set aside.
type unusable struct {
	movedTo string
	reason  error
}

func (e *unusable) Error() string {
	return fmt.Sprintf("%v; it was moved to %s", e.reason, e.movedTo)
}

func (e *unusable) Unwrap() error { return e.reason }

func openOnce(path string, opt CheckpointOptions) (*Checkpoint, bool, error) {
	// The lock is taken first and held until the checkpoint is closed: what is
	// verified, and perhaps set aside, cannot be another process's living file.
	f, fresh, err := openLocked(path, opt)
	if err != nil {
		return nil, false, err
	}
	c := &Checkpoint{path: path, file: f}
	var empty bool
	err = verifyFile(f, fresh)
	if err == nil {
		err = c.guard(func() error {
			if err := c.open(f, opt); err != nil {
				return err
			}
			var err error
			empty, err = c.checkSchema(opt.ReadOnly)
			return err
		})
	}
	if err == nil {
		return c, empty, nil
	}
	if errors.Is(err, ErrDamaged) {
		err = reject(path, err, opt.ReadOnly)
	}
	_ = c.Close()
	return nil, false, err
}

func verifyFile(f *os.File, fresh bool) error {
	if fresh {
		return nil
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := verifyBolt(f, st.Size()); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// reject sets an unusable file aside; its lock is still held.
func reject(path string, reason error, readOnly bool) error {
	if readOnly {
		return fmt.Errorf("%w (agentd sets it aside when it runs)", reason)
	}
	to, err := setAside(path)
	if err != nil {
		return fmt.Errorf("%w; it could not be set aside: %w", reason, err)
	}
	return &unusable{to, reason}
}

// open hands the locked file to bbolt, which locks it again: that is nothing
// new to the kernel, since it is the same open file.
func (c *Checkpoint) open(f *os.File, opt CheckpointOptions) error {
	db, err := bolt.Open(c.path, 0o600, &bolt.Options{
		ReadOnly:     opt.ReadOnly,
		Timeout:      time.Second,
		FreelistType: bolt.FreelistMapType,
		NoStatistics: true,
		OpenFile:     func(string, int, os.FileMode) (*os.File, error) { return f, nil },
	})
	c.db = db
	return err
}

// checkSchema notes the schema in a new file and refuses any other one. empty
// tells that the file was new.
func (c *Checkpoint) checkSchema(readOnly bool) (empty bool, err error) {
	err = c.db.View(func(tx *bolt.Tx) error {
		if k, _ := tx.Cursor().First(); k == nil {
			empty = true // made just now, or the power went away at this point
			return nil
		}
		b := tx.Bucket([]byte(schemaBucket))
		if b == nil {
			return fmt.Errorf("%w: it is a bbolt file, but not agentd's", ErrDamaged)
		}
		if v := string(b.Get([]byte(schemaKey))); v != schemaVersion {
			return fmt.Errorf("%w: its schema is %q, this agentd reads %q", ErrDamaged, v, schemaVersion)
		}
		return nil
	})
	if err != nil || !empty || readOnly {
		return empty, err
	}
	return true, c.db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte(schemaBucket))
		if err != nil {
			return err
		}
		return b.Put([]byte(schemaKey), []byte(schemaVersion))
	})
}

// read returns everything, by kind and name.
func (c *Checkpoint) read() ([]Change, error) {
	var out []Change
	err := c.guard(func() error {
		return c.db.View(func(tx *bolt.Tx) error {
			return tx.ForEach(func(kind []byte, b *bolt.Bucket) error {
				if string(kind) == schemaBucket {
					return nil
				}
				return b.ForEach(func(name, data []byte) error {
					if data == nil {
						return nil // a bucket, and none of agentd's
					}
					key := apis.Key{Kind: apis.Kind(kind), Name: string(name)}
					out = append(out, Change{Key: key, Data: append([]byte{}, data...)})
					return nil
				})
			})
		})
	})
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", c.path, err)
	}
	return out, nil
}

// Load calls fn for each object, by kind and name.
func (c *Checkpoint) Load(fn func(key apis.Key, data []byte) error) error {
	all, err := c.read()
	if err != nil {
		return err
	}
	for _, x := range all {
		if err := fn(x.Key, x.Data); err != nil {
			return err
		}
	}
	return nil
}

// Save writes the changes in one transaction and waits for the disk.
func (c *Checkpoint) Save(changes []Change) error {
	err := c.guard(func() error {
		return c.db.Update(func(tx *bolt.Tx) error {
			for _, x := range changes {
				if err := saveOne(tx, x); err != nil {
					return fmt.Errorf("%s: %w", x.Key, err)
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", c.path, err)
	}
	return nil
}

func saveOne(tx *bolt.Tx, x Change) error {
	kind := []byte(x.Key.Kind)
	if x.Data == nil {
		if b := tx.Bucket(kind); b != nil {
			return b.Delete([]byte(x.Key.Name))
		}
		return nil
	}
	b, err := tx.CreateBucketIfNotExists(kind)
	if err != nil {
		return err
	}
	return b.Put([]byte(x.Key.Name), x.Data)
}

// Snapshot returns a copy in memory, for the dry run.
func (c *Checkpoint) Snapshot() (*Memory, error) {
	all, err := c.read()
	if err != nil {
		return nil, err
	}
	m := NewMemory()
	return m, m.Save(all)
}

// Close lets go of the file and of its lock.
func (c *Checkpoint) Close() error {
	if c.db == nil || c.fault.Load() != nil {
		// The memory map lives on and would keep the lock.
		return errors.Join(unix.Flock(int(c.file.Fd()), unix.LOCK_UN), c.file.Close())
	}
	if err := c.db.Close(); err != nil {
		return fmt.Errorf("checkpoint %s: %w", c.path, err)
	}
	return nil
}

// guard runs fn and makes an error of what would otherwise end the process: a
// file that is cut short under bbolt's memory map raises SIGBUS.
func (c *Checkpoint) guard(fn func() error) (err error) {
	if p := c.fault.Load(); p != nil {
		return *p
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: its file cannot be accessed: %v", ErrDamaged, v)
			c.fault.Store(&err)
		}
	}()
	return fn()
}
