// SPDX-License-Identifier: Apache-2.0

package entry

import (
	"strconv"
	"syscall"
	"testing"
)

// umaskTo sets the process's umask back and reports when it was another than expected.
func umaskTo(t *testing.T, next, want int) {
	t.Helper()
	if got := syscall.Umask(next); got != want {
		t.Errorf("umask %#o, want %#o", got, want)
	}
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
