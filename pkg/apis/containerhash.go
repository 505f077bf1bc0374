// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// ContainerHash tells whether a container was made from an equal spec: 16
// hexadecimal digits over everything but Run, Stop and StopGrace, which say what
// to do with a container and not what it is. Empty and absent lists and maps
// count as equal, so do all orders of a map; a field that a later version adds
// changes nothing while it is unset.
func ContainerHash(spec ContainerSpec) string {
	spec.Run, spec.Stop, spec.StopGrace = false, false, 0
	// Every field of the spec is a plain value, which JSON can always hold.
	b, err := json.Marshal(spec)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
