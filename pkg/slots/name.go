// SPDX-License-Identifier: Apache-2.0

package slots

import "strings"

// Type tells how amounts of a slot are counted (26.8 SlotTypes).
type Type string

// The slot types.
const (
	// Count is a number of things, or of shares of them.
	Count Type = "count"
	// Bytes is a number of bytes.
	Bytes Type = "bytes"
	// Unique slots are one indivisible thing each; exactly 1 can be asked for.
	Unique Type = "unique"
	// Unified devices belong to every kernel and are never allocated.
	Unified Type = "unified"
)

// The two slots that every node has and that every kernel asks for.
const (
	CPU    = "cpu"
	Memory = "mem"
)

// Name is a slot name taken apart: device[.major[:minor]].
type Name struct {
	// Device is the device name, and the key of the plugin that owns the slot.
	Device string
	// Major and Minor are the type, such as "device" and "1g.5gb-mig".
	Major, Minor string
}

// ParseName takes a slot name apart. Every text is a name.
func ParseName(slot string) Name {
	device, kind, _ := strings.Cut(slot, ".")
	major, minor, _ := strings.Cut(kind, ":")
	return Name{Device: device, Major: major, Minor: minor}
}

// IsAccelerator reports whether the slot counts devices or shares of them.
func (n Name) IsAccelerator() bool {
	switch n.Major {
	case "device", "devices", "share", "shares":
		return true
	default:
		return false
	}
}

// ownedBy reports whether a slot may belong to the device name.
func ownedBy(device, slot string) bool {
	return slot == device || strings.HasPrefix(slot, device+".")
}
