// SPDX-License-Identifier: Apache-2.0

package reconciler

import "testing"

// TestArchitecture: names of one architecture are one, and of two never are.
func TestArchitecture(t *testing.T) {
	for _, same := range [][]string{
		{"x86_64", "amd64", "x64"}, {"aarch64", "arm64"}, {"x86", "x32", "i686"}, {"riscv64"}, {""},
	} {
		for _, name := range same {
			if got := architecture(name); got != same[0] {
				t.Errorf("%q is %q, want %q", name, got, same[0])
			}
		}
	}
}
