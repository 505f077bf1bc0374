// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"agentd/pkg/admin"
	"agentd/test/admintest"
)

const (
	single = "apiVersion: agentd/v1\nkind: ClusterSession\nmetadata: {name: one}\nspec: {image: \"agentd.local/busybox:1\", slots: {cpu: 1, mem: 64m}}\n"
	// patience bounds what would otherwise hang; nothing takes that long.
	patience = 20 * time.Second
)

// start runs a daemon for the test.
func start(t *testing.T) (*admintest.Daemon, *admin.Client, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	d, err := admintest.Start(context.WithoutCancel(ctx), socketDir(t), admintest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := admin.NewClient(d.Socket)
	t.Cleanup(c.Close)
	return d, c, ctx
}

// socketDir is a directory with a name that is short enough for a socket.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "adm") //nolint:usetesting // t.TempDir has names that are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// cluster is a session file with three kernels.
func cluster(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../examples/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// collect keeps the lines of progress.
func collect(into *[]admin.Progress) func(admin.Progress) error {
	return func(p admin.Progress) error {
		*into = append(*into, p)
		return nil
	}
}

var wait = admin.WaitOptions{Wait: true, Timeout: 15 * time.Second}

// apply applies a file and returns the last line.
func apply(t *testing.T, ctx context.Context, c *admin.Client, data string) admin.Progress { //nolint:revive // t comes first in helpers
	t.Helper()
	var lines []admin.Progress
	if err := c.Apply(ctx, "f.yaml", []byte(data), wait, collect(&lines)); err != nil {
		t.Fatal(err)
	}
	return lines[len(lines)-1]
}

func contains(t *testing.T, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("%q does not contain %q", got, want)
	}
}
