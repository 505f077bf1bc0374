// SPDX-License-Identifier: Apache-2.0

package apis

// Image says that an image is present. See [ImageName] for its name.
type Image = Object[ImageSpec, ImageStatus]

// ImageSpec describes the image.
type ImageSpec struct {
	Ref ImageRef `json:"ref"`
}

// ImageName is the name of the Image object that a kernel with this reference
// needs: references that ask for the same thing share one.
func ImageName(r ImageRef) string {
	name := r.Canonical
	if r.Architecture != "" { // what one kernel asks for must not fail another
		name += "+arch-" + r.Architecture
	}
	if r.Local {
		return name + "+local"
	}
	if r.Pull == PullDigest && r.Digest != "" {
		name += "@" + r.Digest
	}
	if r.Pull == PullNone {
		name += "+none"
	}
	if r.Username != "" {
		name += "+" + r.Username
	}
	return name
}

// ImageStatus is what is seen of it.
type ImageStatus struct {
	Conditions Conditions `json:"conditions,omitempty"`
	// ID is the config digest.
	ID           string            `json:"id,omitempty"`
	Architecture string            `json:"architecture,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	// Env is the environment that the image defines.
	Env []string `json:"env,omitempty"`
	// Pulling is true while a pull is running; Progress describes it.
	Pulling  bool   `json:"pulling,omitempty"`
	Progress string `json:"progress,omitempty"`
	// Attempts counts the pulls that failed.
	Attempts int `json:"attempts,omitempty"`
}
