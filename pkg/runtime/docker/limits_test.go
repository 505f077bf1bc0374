// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHardLimitsOfThisProcess(t *testing.T) {
	got, err := hardLimits(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, resource := range map[string]int{"nofile": unix.RLIMIT_NOFILE, "memlock": unix.RLIMIT_MEMLOCK, "core": unix.RLIMIT_CORE, "stack": unix.RLIMIT_STACK} {
		var limit syscall.Rlimit
		if err := syscall.Getrlimit(resource, &limit); err != nil {
			t.Fatal(err)
		}
		if got[name] != int64(limit.Max) { // unlimited is all bits set: -1
			t.Errorf("%s: got %d, want %d", name, got[name], int64(limit.Max))
		}
	}
	if _, err := hardLimits(0); err == nil {
		t.Error("no error for a process that is not there")
	}
	if _, err := mayRaiseLimits(0); err == nil {
		t.Error("no error for a process that is not there")
	}
}
