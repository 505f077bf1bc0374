// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const childRoot = "SCRATCH_TEST_CHILD_ROOT"

func TestMain(m *testing.M) {
	if root := os.Getenv(childRoot); root != "" {
		makeAndRemove(root)
	}
	os.Exit(m.Run())
}

// makeAndRemove is the child's life: it goes on until it is killed.
func makeAndRemove(root string) {
	s, err := New(root, WithOwner("agent-1"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for ctx := context.Background(); ; {
		if _, _, err := s.Ensure(ctx, kid, kernelSpec()); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		if err := s.Remove(ctx, kid); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

// Killed at any instant, agentd finds either no scratch, or one that is marked
// and that Ensure completes; and the rest is swept.
func TestKilledAtAnyInstant(t *testing.T) {
	s := newStore(t, WithOwner("agent-1"))
	for round := range 40 {
		child := exec.Command("/proc/self/exe", "-test.run=^$")
		child.Env = append(os.Environ(), childRoot+"="+s.root)
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		lines := bufio.NewScanner(out)
		if !lines.Scan() || lines.Text() != "ready" {
			t.Fatalf("child: %q, %v", lines.Text(), lines.Err())
		}
		<-time.After(time.Duration(round*137) * time.Microsecond)
		must(t, child.Process.Kill())
		for lines.Scan() {
			t.Errorf("child: %s", lines.Text())
		}
		_ = child.Wait() // it was killed

		names, err := s.List(t.Context())
		must(t, err)
		entries, err := os.ReadDir(s.root)
		must(t, err)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), limboPrefix) && !(len(names) == 1 && names[0] == e.Name()) {
				t.Fatalf("round %d: %s is neither marked nor in limbo", round, e.Name())
			}
		}
		ensure(t, s, kernelSpec())
		if diff := cmp.Diff(wantTree(), treeOf(t, s.Path(kid))); diff != "" {
			t.Fatalf("round %d (-want +got):\n%s", round, diff)
		}
		must(t, s.CleanRemoving(t.Context()))
		if entries, err := os.ReadDir(s.root); err != nil || len(entries) != 1 {
			t.Fatalf("round %d: %v, %v", round, entries, err)
		}
		if round%2 == 0 {
			must(t, s.Remove(t.Context(), kid))
		}
	}
}
