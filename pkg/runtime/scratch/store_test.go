// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"agentd/pkg/apis"
)

// TestExisting: who only looks makes no root, and sees one that comes later.
func TestExisting(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "scratches")
	looker, err := New(root, WithOwner("agent-1"), Existing())
	if err != nil {
		t.Fatal(err)
	}
	if names, err := looker.List(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("a missing root holds %q, %v", names, err)
	}
	if _, err := os.Lstat(filepath.Dir(root)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}

	s, err := New(root, WithOwner("agent-1"))
	if err != nil {
		t.Fatal(err)
	}
	ensure(t, s, kernelSpec())
	if names, err := looker.List(t.Context()); err != nil || !slices.Equal(names, []string{kid}) {
		t.Errorf("the root holds %q, %v", names, err)
	}

	// A root that goes away under a daemon is no empty one.
	must(t, os.RemoveAll(root))
	if _, err := s.List(t.Context()); !errors.Is(err, apis.ErrUnavailable) {
		t.Errorf("the daemon is told %v", err)
	}
	// What cannot be a root is refused in any case.
	must(t, os.WriteFile(root, nil, 0o600))
	if _, err := New(root, Existing()); !errors.Is(err, apis.ErrInvalid) {
		t.Errorf("a file as root: %v", err)
	}
}
