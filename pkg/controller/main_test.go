// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

// childEnv makes this test binary a process that commits until it is killed or
// the disk is full: "PATH" or "PATH LIMIT", the limit for any file in bytes.
const childEnv = "CONTROLLER_TEST_CHILD"

func TestMain(m *testing.M) {
	if arg := os.Getenv(childEnv); arg != "" {
		if err := child(strings.Fields(arg)); err != nil {
			fmt.Println("error:", err)
		}
		return
	}
	os.Exit(m.Run())
}

// child prints the number of each commit when it is done.
func child(args []string) error {
	c, _, err := controller.OpenCheckpoint(args[0], controller.CheckpointOptions{})
	if err != nil {
		return err
	}
	if len(args) > 1 {
		var limit uint64
		if _, err := fmt.Sscan(args[1], &limit); err != nil {
			return err
		}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	w := newWorld()
	if _, err := w.Attach(c); err != nil {
		return err
	}
	big := strings.Repeat("x", 6<<10)
	for i := 1; ; i++ {
		err := w.Commit(func(tx *tx) error {
			for _, n := range []string{"a", "b", fmt.Sprint(i)} { // together, or not at all
				if err := w.boxes.SpecWriter().Apply(tx, apis.Meta{Name: n}, boxSpec{Size: i, Tags: []string{big}}); err != nil {
					return err
				}
			}
			if i > 20 {
				w.boxes.Deleter().Delete(tx, fmt.Sprint(i-20), "old", "")
			}
			return nil
		})
		if err != nil {
			// Fatal it is, and fatal it stays.
			again := w.Commit(func(tx *tx) error { w.boxes.Deleter().Delete(tx, "a", "", ""); return nil })
			<-w.Fatal()
			return fmt.Errorf("%w (then: %w)", err, again)
		}
		fmt.Println(i)
	}
}
