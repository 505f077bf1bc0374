// SPDX-License-Identifier: Apache-2.0

package apis_test

import (
	"testing"

	"agentd/pkg/apis"
)

// TestImageName: two references share an object only when one answer fits both.
func TestImageName(t *testing.T) {
	const c = "registry.local/base:1"
	seen := map[string]apis.ImageRef{}
	for _, r := range []apis.ImageRef{
		{Canonical: c},
		{Canonical: c, Local: true},
		{Canonical: c, Pull: apis.PullNone},
		{Canonical: c, Pull: apis.PullDigest, Digest: "sha256:1"},
		{Canonical: c, Username: "u"},
		{Canonical: c, Architecture: "x86_64"},
		{Canonical: c, Architecture: "aarch64"},
		{Canonical: c, Architecture: "aarch64", Local: true},
	} {
		name := apis.ImageName(r)
		if other, ok := seen[name]; ok {
			t.Errorf("%+v and %+v are both %s", other, r, name)
		}
		seen[name] = r
	}
	if a, b := apis.ImageName(apis.ImageRef{Canonical: c, Pull: apis.PullTag}), apis.ImageName(apis.ImageRef{Canonical: c}); a != b {
		t.Errorf("%s and %s ask for the same", a, b)
	}
}
