// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"agentd/pkg/admin"
)

// versions are those of this program and of the daemon.
type versions struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
	// Daemon is nil when none answers.
	Daemon *admin.VersionInfo `json:"daemon,omitempty"`
}

func newVersionCommand(s streams, g *globals) *cobra.Command {
	var f format
	var clientOnly bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, and of the daemon if one answers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			if !clientOnly {
				v.Daemon = g.daemonVersion(cmd.Context())
			}
			if f != formatTable {
				return printData(s.out, f, v)
			}
			if _, err := fmt.Fprintf(s.out, "agentd %s (%s, %s/%s)\n", v.Version, v.Go, v.OS, v.Arch); err != nil || v.Daemon == nil {
				return err
			}
			_, err := fmt.Fprintf(s.out, "daemon %s (agent %s, process %d, up %s)\n", v.Daemon.Version, v.Daemon.AgentID, v.Daemon.PID, age(v.Daemon.Since))
			return err
		},
	}
	formatFlag(cmd, &f, formatJSON, formatYAML)
	cmd.Flags().BoolVar(&clientOnly, "client", false, "do not ask the daemon")
	return cmd
}

// daemonVersion asks the daemon; nil if none answers soon.
func (g *globals) daemonVersion(ctx context.Context) *admin.VersionInfo {
	c, err := g.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	v, err := c.Version(ctx)
	if err != nil {
		return nil
	}
	return &v
}
