// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Differing names what Ensure changes, and nothing when Ensure has nothing to do.
func TestDiffering(t *testing.T) {
	s, spec := newStore(t, WithOwner("agent-1")), kernelSpec()
	differing := func(want ...string) {
		t.Helper()
		before := treeOf(t, s.root)
		got, err := s.Differing(t.Context(), kid, spec)
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, treeOf(t, s.root)); diff != "" {
			t.Errorf("it changed the scratch (-before +after):\n%s", diff)
		}
	}
	differing(".")
	ensure(t, s, spec)
	differing()
	dir := s.Path(kid)
	for name, damage := range map[string]func() error{
		"config/environ.txt": func() error { return os.WriteFile(dir+"/config/environ.txt", []byte("x"), 0o600) },
		"config/ssh":         func() error { return os.Chmod(dir+"/config/ssh", 0o777) },
		"run":                func() error { return os.Remove(dir + "/run") },
		".":                  func() error { return os.Chmod(dir, 0o755) },
	} {
		must(t, damage())
		differing(name)
		if !ensure(t, s, spec) {
			t.Errorf("%s: Ensure found nothing to change", name)
		}
		differing()
	}
	if _, err := s.Differing(t.Context(), "../x", spec); err == nil {
		t.Error("a name that leads out of the root is no error")
	}
}
