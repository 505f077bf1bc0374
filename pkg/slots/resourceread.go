// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ParseResourceText reads a resource.txt of this agent or of the reference
// (20.09 to 26.8), humanized bytes and exponents included. Slots of type
// [Bytes] in types are read with units; without types only mem is.
//
// A damaged file gives an error that wraps [ErrResourceText] and names every
// bad line, and beside it all that could be read: the devices that a kernel is
// known to hold must not be sold again because a mount's path has a comma.
func ParseResourceText(data []byte, types map[string]Type) (ResourceText, error) {
	t := ResourceText{Slots: Amounts{}, Allocation: Allocation{}}
	if !utf8.Valid(data) {
		return t, fmt.Errorf("%w: not UTF-8", ErrResourceText)
	}
	if types == nil {
		types = map[string]Type{Memory: Bytes}
	}
	values, keys := splitLines(string(data))
	var errs []error
	for _, key := range []string{"SCRATCH_SIZE", "MOUNTS", "SLOTS"} {
		if _, given := values[key]; !given {
			errs = append(errs, fmt.Errorf("%w: no line %s", ErrResourceText, key))
		}
	}
	for _, key := range keys {
		if err := t.readLine(key, values[key], types); err != nil {
			errs = append(errs, fmt.Errorf("%w: %s: %w", ErrResourceText, key, err))
		}
	}
	return t, errors.Join(errs...)
}

// splitLines returns the values by key and the keys in order of their first
// lines. Of two lines with one key the last counts; others than KEY=VALUE do not.
func splitLines(text string) (values map[string]string, keys []string) {
	values = map[string]string{}
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		if !found {
			continue
		}
		if _, again := values[key]; !again {
			keys = append(keys, key)
		}
		values[key] = value
	}
	return values, keys
}

func (t *ResourceText) readLine(key, value string, types map[string]Type) (err error) {
	switch key {
	case "SCRATCH_SIZE":
		t.ScratchBytes, err = ParseFiniteBytes(value)
	case "MOUNTS":
		t.Mounts, err = parseMounts(value)
	case "SLOTS":
		t.Slots, err = parseSlots(value)
	case "UNIFIED_DEVICES":
		err = json.Unmarshal([]byte(value), &t.Unified)
	case "CID":
		t.ContainerID = value
	default:
		prefix, isShares := strings.CutSuffix(key, sharesSuffix)
		if !isShares {
			t.Extra = append(t.Extra, Line{key, value})
			return nil
		}
		err = t.readShares(strings.ToLower(prefix), value, types)
	}
	return err
}

// readShares reads "0:1,1:1". Entries without ID or amount are skipped.
func (t *ResourceText) readShares(slot, value string, types map[string]Type) error {
	parse := ParseAmount
	if types[slot] == Bytes {
		parse = ParseBytes
	}
	name := ParseName(slot).Device
	if t.Allocation[name] == nil {
		t.Allocation[name] = map[string]map[string]Amount{}
	}
	if !slices.Contains(t.Order, name) {
		t.Order = append(t.Order, name)
	}
	shares := map[string]Amount{}
	t.Allocation[name][slot] = shares
	var errs []error
	for entry := range strings.SplitSeq(value, ",") {
		id, text, _ := strings.Cut(entry, ":")
		if id == "" || text == "" {
			continue
		}
		amount, err := parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("device %q: %w", id, err))
			continue
		}
		shares[id] = amount
	}
	return errors.Join(errs...)
}

// parseMounts reads all mounts or none: beside a path with a comma, the path's
// other half can look like a mount of its own. Each bad mount is named in the error.
func parseMounts(value string) ([]MountText, error) {
	if value == "" {
		return nil, nil
	}
	var mounts []MountText
	var errs []error
	for entry := range strings.SplitSeq(value, ",") {
		parts := strings.Split(entry, ":")
		if len(parts) != 3 {
			errs = append(errs, fmt.Errorf("mount %q: not source:target:permission", entry))
			continue
		}
		m := MountText{Source: parts[0], Target: parts[1], Permission: parts[2]}
		if err := m.check(); err != nil {
			errs = append(errs, err)
			continue
		}
		mounts = append(mounts, m)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return mounts, nil
}

// parseSlots reads the JSON object of requested amounts; null is absent.
func parseSlots(value string) (Amounts, error) {
	var raw map[string]*Amount
	if err := json.Unmarshal([]byte(value), &raw); err != nil {
		return Amounts{}, err
	}
	amounts := make(Amounts, len(raw))
	for slot, amount := range raw {
		if amount != nil {
			amounts[slot] = *amount
		}
	}
	return amounts, nil
}
