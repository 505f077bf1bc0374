// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentd/pkg/apis"
)

// fifteenFiles is a kernel's usual number, 2 KiB each.
func fifteenFiles() apis.ScratchSpec {
	spec := kernelSpec()
	for i := len(spec.Files); i < 15; i++ {
		spec.Files = append(spec.Files, apis.ScratchFile{
			Path: fmt.Sprintf("config/extra-%d", i), Mode: 0o600, UID: -1, GID: -1,
			Content: apis.Secret(strings.Repeat("line of text\n", 160)),
		})
	}
	return spec
}

// The figure to hold is 3 ms. Each round makes another scratch and none is
// removed meanwhile. On ext4, even removals elsewhere slow this down many times,
// because it then searches for inodes that were not deleted lately; "plain" is
// what the same tree costs there at least, and "memory" is without that.
func BenchmarkEnsureFresh(b *testing.B) {
	spec := fifteenFiles()
	lay, err := planLayout(spec)
	must(b, err)
	fresh := func(b *testing.B, s *Store) {
		for n := 0; b.Loop(); n++ {
			_, _, err := s.Ensure(b.Context(), fmt.Sprintf("k-%d", n), spec)
			must(b, err)
		}
	}
	b.Run("disk", func(b *testing.B) { fresh(b, newStore(b)) })
	b.Run("plain", func(b *testing.B) {
		root := b.TempDir()
		for n := 0; b.Loop(); n++ {
			top := filepath.Join(root, fmt.Sprintf("k-%d", n))
			must(b, os.Mkdir(top, 0o711))
			for _, d := range lay.dirs {
				must(b, os.Mkdir(filepath.Join(top, d.Path), os.FileMode(d.Mode)))
			}
			for _, f := range lay.files {
				must(b, os.WriteFile(filepath.Join(top, f.Path), []byte(f.Content.Reveal()), os.FileMode(f.Mode)))
			}
		}
	})
	b.Run("memory", func(b *testing.B) {
		root := b.TempDir()
		mount(b, root, "size=1g")
		s, err := New(root)
		must(b, err)
		fresh(b, s)
	})
}

// The figure to hold is 300 µs.
func BenchmarkEnsureNoop(b *testing.B) {
	s, spec := newStore(b), fifteenFiles()
	ensure(b, s, spec)
	for b.Loop() {
		if ensure(b, s, spec) {
			b.Fatal("changed")
		}
	}
}

func BenchmarkList100(b *testing.B) {
	s := newStore(b)
	for i := range 100 {
		_, _, err := s.Ensure(b.Context(), fmt.Sprintf("k-%d", i), apis.ScratchSpec{Kind: kindHostdir})
		must(b, err)
	}
	for b.Loop() {
		if names, err := s.List(b.Context()); err != nil || len(names) != 100 {
			b.Fatal(len(names), err)
		}
	}
}
