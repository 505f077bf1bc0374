// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxName = 128
	maxPath = 4095
	maxElem = 255

	// markName is the file in a scratch's top directory that says whose it is.
	markName = ".agentd"
	// stagingName is what a file or directory is called in its own directory
	// until it is complete. One fixed name: what a crash leaves behind is
	// cleared by the next write there, without listing the directory.
	stagingName = ".agentd-new"
	limboPrefix = ".removing-"
)

// checkName refuses what cannot be the name of a scratch. The root holds other
// things under names with a leading dot.
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return invalid("scratch name %.140q: must have 1 to %d characters", name, maxName)
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_' && c != '.') {
			return invalid("scratch name %q: must be a kernel ID: letters, digits, and - _ . after the first", name)
		}
	}
	return nil
}

// checkPath refuses what is not a plain path below a scratch.
func checkPath(p string) error {
	switch {
	case p == "" || p == "." || !filepath.IsLocal(p) || path.Clean(p) != p:
		return fmt.Errorf("path %.200q: must be relative, without empty, . and .. elements", p)
	case len(p) > maxPath:
		return fmt.Errorf("path %.200q: longer than %d bytes", p, maxPath)
	case !utf8.ValidString(p) || strings.ContainsFunc(p, unicode.IsControl):
		return fmt.Errorf("path %.200q: has control characters or is not UTF-8", p)
	}
	for i, elem := range strings.Split(p, "/") {
		if len(elem) > maxElem {
			return fmt.Errorf("path %.200q: an element is longer than %d bytes", p, maxElem)
		}
		if elem == stagingName || i == 0 && elem == markName {
			return fmt.Errorf("path %.200q: %s is agentd's own", p, elem)
		}
	}
	return nil
}

// limboName is the name of a directory that is half made or half removed. The
// number follows the last dash, so names with dashes cannot be confused.
func limboName(name string, n int) string {
	return limboPrefix + name + "-" + strconv.Itoa(n)
}

// limboOwner returns the scratch that a limbo directory was or was to be.
func limboOwner(entry string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(entry, limboPrefix)
	dash := strings.LastIndexByte(rest, '-')
	if !ok || dash < 0 {
		return "", false
	}
	if _, err := strconv.ParseUint(rest[dash+1:], 10, 31); err != nil {
		return "", false
	}
	name = rest[:dash]
	return name, checkName(name) == nil
}
