// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"context"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

// Differing lists what Ensure would make or change, by path; "." stands for the
// scratch's own directory. It changes nothing. What Ensure would refuse to touch
// is listed too: it is not as wanted.
func (s *Store) Differing(ctx context.Context, name string, spec apis.ScratchSpec) ([]string, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	lay, err := planLayout(spec)
	if err != nil {
		return nil, fmt.Errorf("scratch %s: %w", name, err)
	}
	root, err := s.openRoot()
	if err != nil {
		return nil, err
	}
	defer closeFD(root)
	t := &tree{path: s.Path(name), euid: s.euid}
	t.top, err = openBeneath(root, name, unix.O_PATH|unix.O_DIRECTORY)
	switch {
	case isAbsent(err):
		return []string{"."}, nil
	case err != nil:
		return nil, explain("open scratch", t.path, err)
	}
	defer t.close()
	var out []string
	if !s.topIsRight(t.top) {
		out = append(out, ".")
	}
	for _, d := range lay.dirs {
		if !t.dirIsRight(d) {
			out = append(out, d.Path)
		}
	}
	for _, f := range lay.files {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("scratch %q: %w", t.path, err)
		}
		same := false
		parent, err := t.openParent(path.Dir(f.Path))
		if err == nil {
			same, err = t.isThere(parent, f)
		}
		if err != nil || !same {
			out = append(out, f.Path)
		}
	}
	return out, nil
}

func (s *Store) topIsRight(top int) bool {
	st, err := stat(top)
	if err != nil {
		return false
	}
	owner, marked, err := readMark(top)
	return err == nil && marked && owner == s.owner && st.Mode&0o7777 == topMode && int64(st.Uid) == int64(s.euid)
}

func (t *tree) dirIsRight(d layoutDir) bool {
	fd, err := openBeneath(t.top, d.Path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	if d.implied {
		return true
	}
	st, err := stat(fd)
	return err == nil && isOwned(st, d.UID, d.GID) && st.Mode&0o7777 == d.Mode
}
