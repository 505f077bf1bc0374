// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/base32"
	"encoding/binary"
	"strings"

	"github.com/google/uuid"
)

// Cloud names where the node runs.
type Cloud string

// The clouds whose metadata services give nodes an identity.
const (
	OnPremise Cloud = ""
	Amazon    Cloud = "amazon"
	Azure     Cloud = "azure"
	Google    Cloud = "google"
)

// Instance is what a cloud's metadata service says about this node.
type Instance struct {
	Cloud Cloud
	// Name is the name of the virtual machine (Azure, Google).
	Name string
	// ID is the instance ID: "i-…" (Amazon) or the vmId UUID (Azure).
	ID string
	// Number is the numeric instance ID (Google).
	Number uint64
}

// AgentID returns the ID that this node registers with: the configured one;
// else one derived from the cloud instance, stable over restarts; else
// "i-<hostname>"; and only without a host name "agent-" and a fresh UUID.
func AgentID(configured, hostname string, in Instance, fresh func() string) string {
	switch {
	case configured != "":
		return configured
	case in.Cloud == Amazon && in.ID != "":
		return in.ID
	case in.Cloud == Azure:
		if id, err := uuid.Parse(in.ID); err == nil && in.Name != "" {
			return "i-" + in.Name + "-" + tail(id[:])
		}
	case in.Cloud == Google && in.Name != "":
		return "i-" + in.Name + "-" + tail(binary.BigEndian.AppendUint64(nil, in.Number))
	}
	if hostname != "" {
		return "i-" + hostname
	}
	return "agent-" + fresh()
}

// tail returns the last five bytes as eight lower-case base32 digits.
func tail(id []byte) string {
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(id[len(id)-5:]))
}
