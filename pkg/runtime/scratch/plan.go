// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"agentd/pkg/apis"
)

const (
	kindHostdir  = "hostdir"
	kindHostfile = "hostfile"
	kindMemory   = "memory"

	// workDir is the kernel's home: what is made on the way to its files there
	// is the kernel's too.
	workDir     = "work"
	impliedMode = 0o755
)

// layout is what a scratch must hold, in the order in which it is made.
type layout struct {
	dirs  []layoutDir
	files []apis.ScratchFile
}

// layoutDir is a directory. An implied one is not listed in the spec but leads
// to something that is: it is made if missing and otherwise left as it is.
type layoutDir struct {
	apis.ScratchDir
	implied bool
}

// planLayout checks a spec and works out the layout. Its errors are terminal.
func planLayout(spec apis.ScratchSpec) (layout, error) {
	switch spec.Kind {
	case kindHostdir:
	case kindHostfile, kindMemory:
		return layout{}, invalid("scratch kind %s is not offered: set container.scratch-type to %s", spec.Kind, kindHostdir)
	default:
		return layout{}, invalid("scratch kind %.40q is unknown: set container.scratch-type to %s", spec.Kind, kindHostdir)
	}
	dirs := map[string]layoutDir{}
	for _, d := range spec.Dirs {
		if err := checkEntry(d.Path, d.Mode, 0o1777, d.UID, d.GID); err != nil {
			return layout{}, invalid("scratch directory: %w", err)
		}
		if _, twice := dirs[d.Path]; twice {
			return layout{}, invalid("scratch directory %q is listed twice", d.Path)
		}
		dirs[d.Path] = layoutDir{ScratchDir: d}
	}
	for _, d := range spec.Dirs {
		addParents(dirs, d.Path, d.UID, d.GID)
	}
	files := map[string]bool{}
	for _, f := range spec.Files {
		if err := checkEntry(f.Path, f.Mode, 0o777, f.UID, f.GID); err != nil {
			return layout{}, invalid("scratch file: %w", err)
		}
		if files[f.Path] {
			return layout{}, invalid("scratch file %q is listed twice", f.Path)
		}
		files[f.Path] = true
		addParents(dirs, f.Path, f.UID, f.GID)
	}
	for _, f := range spec.Files {
		if _, both := dirs[f.Path]; both {
			return layout{}, invalid("scratch path %q is listed both as a file and as a directory", f.Path)
		}
	}
	out := layout{files: spec.Files}
	for _, p := range slices.Sorted(maps.Keys(dirs)) { // a parent sorts before its children
		out.dirs = append(out.dirs, dirs[p])
	}
	return out, nil
}

// addParents adds the directories that lead to p and are not there yet.
func addParents(dirs map[string]layoutDir, p string, uid, gid int) {
	for p = path.Dir(p); p != "."; p = path.Dir(p) {
		if _, known := dirs[p]; known {
			continue
		}
		d := layoutDir{apis.ScratchDir{Path: p, Mode: impliedMode, UID: -1, GID: -1}, true}
		if strings.HasPrefix(p, workDir+"/") {
			d.UID, d.GID = uid, gid
		}
		dirs[p] = d
	}
}

func checkEntry(p string, mode, allowed uint32, uid, gid int) error {
	if err := checkPath(p); err != nil {
		return err
	}
	if mode == 0 || mode&^allowed != 0 {
		return fmt.Errorf("%q: mode %#o: must be permission bits within %#o", p, mode, allowed)
	}
	for _, id := range []int{uid, gid} {
		if id < -1 || id >= math.MaxUint32 {
			return errors.New(p + ": owner and group must be a number or -1 for agentd's own")
		}
	}
	return nil
}
