// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/pkg/apis"
)

func wantTerminal(t *testing.T, err error, words string) {
	t.Helper()
	if term, ok := apis.AsTerminal(err); !ok || term.Reason != apis.ReasonInvalid || !errors.Is(err, apis.ErrInvalid) {
		t.Fatalf("%v: want a TerminalError for %s", err, apis.ReasonInvalid)
	}
	if !strings.Contains(err.Error(), words) {
		t.Errorf("%q does not say %q", err, words)
	}
}

func TestNames(t *testing.T) {
	s := newStore(t)
	for _, ok := range []string{kid, "k1", "K_1.x-y", strings.Repeat("a", maxName)} {
		if err := checkName(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
		if got := s.Path(ok); got != filepath.Join(s.root, ok) {
			t.Errorf("Path(%q) = %q", ok, got)
		}
	}
	for _, bad := range []string{
		"", ".", "..", "../x", "a/b", "/a", "a/", "-a", ".removing-a-0", "a\x00b", "a\nb", "a b", "ä", "a\\b",
		strings.Repeat("a", maxName+1),
	} {
		wantTerminal(t, checkName(bad), "scratch name")
		if got := s.Path(bad); got != "" {
			t.Errorf("Path(%q) = %q", bad, got)
		}
		_, _, err := s.Ensure(t.Context(), bad, kernelSpec())
		wantTerminal(t, err, "scratch name")
		wantTerminal(t, s.Remove(t.Context(), bad), "scratch name")
		_, err = s.Read(t.Context(), bad, "config/x")
		wantTerminal(t, err, "scratch name")
	}
	if left := treeOf(t, s.root); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestLimboNamesAreUnambiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-zA-Z0-9][a-zA-Z0-9_.-]{0,20}`).Draw(t, "name")
		got, ok := limboOwner(limboName(name, rapid.IntRange(0, 1000).Draw(t, "n")))
		if !ok || got != name {
			t.Fatalf("%q, %v", got, ok)
		}
	})
	for _, no := range []string{".removing-", ".removing-a", ".removing-a-", ".removing-a-x", ".removing--1", ".removing-a/b-1", "a-1", ".removing-a--1x"} {
		if name, ok := limboOwner(no); ok {
			t.Errorf("%q is of %q", no, name)
		}
	}
}

func TestPathsStayBelow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		elem := rapid.SampledFrom([]string{"a", "work", "..", ".", "", ".x", "...", "a b", stagingName, markName})
		p := strings.Join(rapid.SliceOfN(elem, 0, 5).Draw(t, "elems"), "/")
		if checkPath(p) != nil {
			return
		}
		if got := path.Join("/top", p); got != "/top/"+p {
			t.Fatalf("%q leads to %q", p, got)
		}
		if strings.Contains(p, stagingName) || strings.HasPrefix(p, markName) {
			t.Fatalf("%q is agentd's own", p)
		}
	})
}

func TestBadSpecs(t *testing.T) {
	file := func(change func(*apis.ScratchFile)) apis.ScratchSpec {
		f := apis.ScratchFile{Path: "work/f", Mode: 0o600, UID: -1, GID: -1}
		change(&f)
		return apis.ScratchSpec{Kind: kindHostdir, Files: []apis.ScratchFile{f}}
	}
	dirs := func(paths ...string) apis.ScratchSpec {
		spec := apis.ScratchSpec{Kind: kindHostdir}
		for _, p := range paths {
			spec.Dirs = append(spec.Dirs, apis.ScratchDir{Path: p, Mode: 0o755, UID: -1, GID: -1})
		}
		return spec
	}
	both := dirs("work/f")
	both.Files = file(func(*apis.ScratchFile) {}).Files
	below := file(func(*apis.ScratchFile) {})
	below.Files = append(below.Files, apis.ScratchFile{Path: "work/f/g", Mode: 0o600})
	twice := file(func(*apis.ScratchFile) {})
	twice.Files = append(twice.Files, twice.Files[0])

	s := newStore(t)
	for want, specs := range map[string][]apis.ScratchSpec{
		"container.scratch-type": {{Kind: "hostfile", SizeBytes: 1}, {Kind: "memory"}, {Kind: ""}, {Kind: "k8s-nfs"}},
		"must be relative": {
			dirs(""), dirs("."), dirs(".."), dirs("/etc"), dirs("work/../../x"), dirs("work/.."), dirs("./work"), dirs("work/"), dirs("a//b"),
			file(func(f *apis.ScratchFile) { f.Path = "../../etc/passwd" }),
		},
		"control characters": {dirs("work/a\nb"), dirs("a\x7f"), dirs("a\xff")},
		"longer than":        {dirs(strings.Repeat("a", 256)), dirs(strings.Repeat("a/", 2048) + "b")},
		"agentd's own":       {dirs(markName), dirs("work/" + stagingName), file(func(f *apis.ScratchFile) { f.Path = "work/" + stagingName })},
		"permission bits": {
			file(func(f *apis.ScratchFile) { f.Mode = 0 }), file(func(f *apis.ScratchFile) { f.Mode = 0o4755 }),
			file(func(f *apis.ScratchFile) { f.Mode = 0o1644 }),
			{Kind: kindHostdir, Dirs: []apis.ScratchDir{{Path: "d", Mode: 0o2755}}},
		},
		"owner and group": {file(func(f *apis.ScratchFile) { f.UID = -2 }), file(func(f *apis.ScratchFile) { f.GID = 1 << 32 })},
		"listed twice":    {dirs("a", "b", "a"), twice},
		"listed both":     {both, below},
	} {
		for i, spec := range specs {
			t.Run(fmt.Sprintf("%s %d", want, i), func(t *testing.T) {
				_, changed, err := s.Ensure(t.Context(), kid, spec)
				wantTerminal(t, err, want)
				if left := treeOf(t, s.root); changed || len(left) != 1 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

func TestPlanAddsParents(t *testing.T) {
	lay, err := planLayout(apis.ScratchSpec{
		Kind: kindHostdir,
		Dirs: []apis.ScratchDir{{Path: "work/a/b", Mode: 0o700, UID: 7, GID: 8}, {Path: "work", Mode: 0o755, UID: 7, GID: 8}},
		Files: []apis.ScratchFile{
			{Path: "work/a/c/f", Mode: 0o600, UID: 9, GID: 9},
			{Path: "config/ssh/k", Mode: 0o600, UID: 9, GID: 9},
		},
	})
	must(t, err)
	var got []string
	for _, d := range lay.dirs {
		got = append(got, fmt.Sprintf("%s %o %d:%d implied=%v", d.Path, d.Mode, d.UID, d.GID, d.implied))
	}
	want := []string{
		"config 755 -1:-1 implied=true",
		"config/ssh 755 -1:-1 implied=true",
		"work 755 7:8 implied=false",
		"work/a 755 7:8 implied=true",
		"work/a/b 700 7:8 implied=false",
		"work/a/c 755 9:9 implied=true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
