// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

const (
	// rootMode lets others pass but not list. topMode keeps them out of a
	// kernel's files, its home included: a container reaches them by mounts,
	// which are made as root.
	rootMode = 0o711
	topMode  = 0o700
)

// Store keeps the scratches below one root. It is safe for concurrent use;
// work on one scratch is done one at a time.
type Store struct {
	root  string
	owner string
	euid  int
	// existing forbids to make the root.
	existing bool

	mu   sync.Mutex
	busy map[string]chan struct{}
}

var _ runtime.Scratches = (*Store)(nil)

// Option changes what [New] makes.
type Option func(*Store)

// WithOwner sets the agent ID that marks our scratches. List shows only those
// with our mark; Ensure and Remove refuse those with another one. The default
// is the empty ID.
func WithOwner(agentID string) Option {
	return func(s *Store) { s.owner = agentID }
}

// Existing takes the root as it is, for who only looks: [New] does not make one
// that is missing, and it then holds nothing.
func Existing() Option {
	return func(s *Store) { s.existing = true }
}

// New returns the store below root (container.scratch-root), which is made if
// it is missing, unless [Existing] forbids it. A root that cannot hold scratches at all is a TerminalError;
// one that cannot be made now is ErrUnavailable. An existing root that is read
// only or full is accepted: Ensure tells, and recovers with it.
func New(root string, opts ...Option) (*Store, error) {
	if root == "" {
		return nil, invalid("the scratch root is empty: set container.scratch-root to a directory")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("scratch root: %w; set container.scratch-root to an absolute path", err)
	}
	if root == "/" {
		return nil, invalid("the scratch root is /: set container.scratch-root to a directory of its own")
	}
	s := &Store{root: root, euid: os.Geteuid(), busy: map[string]chan struct{}{}}
	for _, o := range opts {
		o(s)
	}
	if err := s.prepareRoot(); err != nil {
		return nil, err
	}
	return s, nil
}

// prepareRoot makes the root or checks the one that is there.
func (s *Store) prepareRoot() error {
	st, err := os.Stat(s.root)
	switch {
	case errors.Is(err, unix.ENOENT) && s.existing:
		return nil
	case errors.Is(err, unix.ENOENT):
		if err := os.MkdirAll(filepath.Dir(s.root), 0o755); err != nil {
			return explain("make the scratch root", s.root, err)
		}
		if err := os.Mkdir(s.root, rootMode); err != nil {
			return explain("make the scratch root", s.root, err)
		}
		if err := os.Chmod(s.root, rootMode); err != nil { // the umask may have taken bits
			return explain("make the scratch root", s.root, err)
		}
	case errors.Is(err, unix.ENOTDIR) || err == nil && !st.IsDir():
		return invalid("the scratch root %q is not a directory: set container.scratch-root to one", s.root)
	case err != nil:
		return explain("look at the scratch root", s.root, err)
	case st.Mode().Perm()&0o002 != 0 && st.Mode()&os.ModeSticky == 0:
		return invalid("the scratch root %q may be changed by everyone: chmod o-w it, or set container.scratch-root to another directory", s.root)
	}
	fd, err := s.openRoot()
	if err != nil {
		return err
	}
	defer closeFD(fd)
	// Find out now, not in the first kernel, that the kernel has no openat2.
	probe, err := openBeneath(fd, ".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return explain("open the scratch root", s.root, err)
	}
	closeFD(probe)
	return nil
}

// openRoot opens the root anew for each call, so that a disk mounted or mended
// later is seen without a restart. The path to the root is the operator's:
// links in it are followed.
func (s *Store) openRoot() (int, error) {
	fd, err := open(s.root, unix.O_PATH|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		return -1, fmt.Errorf("scratch root %q: %w: %w; mount or make it, or set container.scratch-root to another directory",
			s.root, apis.ErrUnavailable, err)
	}
	if err != nil {
		return -1, explain("open the scratch root", s.root, err)
	}
	return fd, nil
}

// Path is the host directory of a scratch, whether it exists or not. It is
// empty for a name that cannot be one.
func (s *Store) Path(name string) string {
	if checkName(name) != nil {
		return ""
	}
	return filepath.Join(s.root, name)
}

// List names our scratches, in order. Directories without our mark, ones that
// are being removed and everything else below the root are left out.
func (s *Store) List(ctx context.Context) ([]string, error) {
	root, err := s.openRoot()
	if s.existing && isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closeFD(root)
	var names []string
	err = s.eachName(ctx, root, func(name string) error {
		if checkName(name) != nil {
			return nil
		}
		top, err := openBeneath(root, name, unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			defer closeFD(top)
			var owner string
			var marked bool
			if owner, marked, err = readMark(top); marked && owner == s.owner {
				names = append(names, name)
			}
		}
		if err != nil && !isAbsent(err) && !isInTheWay(err) {
			return explain("look at", s.Path(name), err)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// eachName calls fn for every name in the root.
func (s *Store) eachName(ctx context.Context, root int, fn func(name string) error) error {
	fd, err := reopen(root, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return explain("list the scratch root", s.root, err)
	}
	d := os.NewFile(uintptr(fd), s.root)
	defer func() { _ = d.Close() }()
	for {
		names, err := d.Readdirnames(512)
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return explain("list the scratch root", s.root, err)
		}
	}
}

// lock waits until nobody else works on the scratch.
func (s *Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		s.mu.Lock()
		other, taken := s.busy[name]
		if !taken {
			mine := make(chan struct{})
			s.busy[name] = mine
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				delete(s.busy, name)
				s.mu.Unlock()
				close(mine)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("scratch %s: waiting for other work on it: %w", name, ctx.Err())
		}
	}
}
