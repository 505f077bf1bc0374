// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
)

// ErrResourceText says that a resource.txt cannot be read, or that what it
// should say cannot be written so that it is read back the same.
var ErrResourceText = errors.New("resource.txt")

// ResourceText is the content of a kernel's config/resource.txt. Programs
// inside the kernel read it, and an agent that lost its own records does.
type ResourceText struct {
	// ScratchBytes is the size of the scratch, written in MiB; usually 0.
	ScratchBytes Amount
	Mounts       []MountText
	// Slots is what was asked for.
	Slots Amounts
	// Unified are the unified devices: pairs of device name and slot.
	Unified [][2]string
	// Allocation is what is held.
	Allocation Allocation
	// Order is the order of device names on writing; others come as in
	// [DefaultOrder]. It is set on reading.
	Order []string
	// Extra are the lines of device plugins.
	Extra []Line
	// ContainerID is the engine's ID, once known.
	ContainerID string
}

// Line is one KEY=VALUE line.
type Line struct{ Key, Value string }

// MountText is a mount as resource.txt has it.
type MountText struct {
	// Source is an absolute host path, or the name of a volume.
	Source string
	// Target is an absolute path inside the kernel.
	Target string
	// Permission is ro, rw or wd (may delete).
	Permission string
}

// check refuses what cannot be read back. The format has no escapes.
func (m MountText) check() error {
	reason := ""
	switch {
	case !clean(m.Source, ",:") || !clean(m.Target, ",:"):
		reason = "a comma, colon or control character in a path cannot be written"
	case m.Source == "" || !path.IsAbs(m.Source) && strings.Contains(m.Source, "/"):
		reason = "the source must be an absolute path or a volume name"
	case !path.IsAbs(m.Target):
		reason = "the target must be an absolute path"
	case m.Permission != "ro" && m.Permission != "rw" && m.Permission != "wd":
		reason = "the permission must be ro, rw or wd"
	default:
		return nil
	}
	return fmt.Errorf("%w: mount %q to %q (%q): %s", ErrResourceText, m.Source, m.Target, m.Permission, reason)
}

// clean reports whether s has neither the given characters nor any that some
// reader takes for the end of a line.
func clean(s, without string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return strings.ContainsRune(without, r) || unicode.IsControl(r) ||
			r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar
	})
}

// Format writes the file: exact bytes and plain decimals, in the order of
// 26.8. It fails with [ErrResourceText] rather than write what would be read
// back differently.
func (t ResourceText) Format() ([]byte, error) {
	scratch, err := FormatBytesIn(t.ScratchBytes, 'm')
	if err != nil {
		return nil, fmt.Errorf("%w: scratch size: %w", ErrResourceText, err)
	}
	mounts := make([]string, len(t.Mounts))
	for i, m := range t.Mounts {
		if err := m.check(); err != nil {
			return nil, err
		}
		mounts[i] = m.Source + ":" + m.Target + ":" + m.Permission
	}
	requested, err := formatSlots(t.Slots)
	if err != nil {
		return nil, err
	}
	unified, err := json.Marshal(append([][2]string{}, t.Unified...))
	if err != nil {
		return nil, fmt.Errorf("%w: unified devices: %w", ErrResourceText, err)
	}
	lines := []Line{
		{"SCRATCH_SIZE", scratch},
		{"MOUNTS", strings.Join(mounts, ",")},
		{"SLOTS", requested},
		{"UNIFIED_DEVICES", string(unified)},
	}
	shares, err := t.shareLines()
	if err != nil {
		return nil, err
	}
	lines = append(lines, shares...)
	for _, l := range t.Extra {
		if !clean(l.Key, "=") || !clean(l.Value, "") || l.Key == "" || reserved(l.Key) {
			return nil, fmt.Errorf("%w: line %q: the key is not free or has characters that cannot be written", ErrResourceText, l.Key)
		}
		lines = append(lines, l)
	}
	if t.ContainerID != "" {
		if !clean(t.ContainerID, " ") {
			return nil, fmt.Errorf("%w: container ID %q: cannot be written", ErrResourceText, t.ContainerID)
		}
		lines = append(lines, Line{"CID", t.ContainerID})
	}
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(l.Key + "=" + l.Value + "\n")
	}
	return []byte(text.String()), nil
}

// reserved reports whether a key has a meaning of its own.
func reserved(key string) bool {
	switch key {
	case "SCRATCH_SIZE", "MOUNTS", "SLOTS", "UNIFIED_DEVICES", "CID":
		return true
	default:
		return strings.HasSuffix(key, sharesSuffix)
	}
}

// sharesSuffix ends the keys of lines that list shares of a slot.
const sharesSuffix = "_SHARES"

// formatSlots writes a JSON object whose keys are in the usual order.
func formatSlots(amounts Amounts) (string, error) {
	members := make([]string, 0, len(amounts))
	for _, slot := range amounts.Slots() {
		if err := checkSlotText(slot); err != nil {
			return "", err
		}
		key, err := json.Marshal(slot)
		if err != nil {
			return "", fmt.Errorf("%w: slot %q: %w", ErrResourceText, slot, err)
		}
		members = append(members, fmt.Sprintf("%s:%q", key, amounts[slot].Plain()))
	}
	return "{" + strings.Join(members, ",") + "}", nil
}

// checkSlotText refuses slot names that change when upper-cased and back.
func checkSlotText(slot string) error {
	if slot == "" || slot != strings.TrimSpace(slot) || !clean(slot, "=") || strings.ToLower(strings.ToUpper(slot)) != slot {
		return fmt.Errorf("%w: slot %q: only lower-case names without = can be written", ErrResourceText, slot)
	}
	return nil
}

// shareLines writes one line for each allocated slot.
func (t ResourceText) shareLines() ([]Line, error) {
	order := t.Order
	for _, name := range DefaultOrder() {
		if !slices.Contains(order, name) {
			order = append(slices.Clone(order), name)
		}
	}
	var lines []Line
	for _, name := range orderNames(slices.Sorted(maps.Keys(t.Allocation)), order) {
		bySlot := t.Allocation[name]
		for _, slot := range slices.SortedFunc(maps.Keys(bySlot), compareSlots) {
			if err := checkSlotText(slot); err != nil {
				return nil, err
			}
			if ParseName(slot).Device != name {
				return nil, fmt.Errorf("%w: slot %q does not belong to device %q", ErrResourceText, slot, name)
			}
			shares := bySlot[slot]
			entries := make([]string, 0, len(shares))
			for _, id := range slices.SortedFunc(maps.Keys(shares), compareIDs) {
				// The reference reads up to the first colon.
				if id == "" || !clean(id, ",:") {
					return nil, fmt.Errorf("%w: device %s %q: an ID with a comma, colon or control character cannot be written", ErrResourceText, name, id)
				}
				entries = append(entries, id+":"+shares[id].Plain())
			}
			lines = append(lines, Line{strings.ToUpper(slot) + sharesSuffix, strings.Join(entries, ",")})
		}
	}
	return lines, nil
}
