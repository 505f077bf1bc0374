// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newLogsCommand(s streams, g *globals) *cobra.Command {
	var follow bool
	tail := -1
	cmd := &cobra.Command{
		Use:   "logs KERNEL",
		Short: "Show what a kernel's container wrote",
		Long: `Show the log of a kernel. After its end, what was kept of it is shown: the tail
of it, as large as container-logs.max-length.

A kernel is named by SESSION/HOST, by SESSION for its first kernel, by ID, or by
the beginning of one.`,
		Example: `  agentd logs demo/main1
  agentd logs -f --tail 20 demo/sub1`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: g.completeKernels,
		RunE: func(cmd *cobra.Command, args []string) error {
			if tail == 0 || tail < -1 {
				return usagef("--tail %d: a number of lines, or -1 for all, is needed", tail)
			}
			c, err := g.client()
			if err != nil {
				return err
			}
			from, err := c.Logs(cmd.Context(), args[0], follow, max(tail, 0))
			if err != nil {
				return err
			}
			defer func() { _ = from.Close() }()
			if _, err := io.Copy(s.out, from); err != nil {
				return fmt.Errorf("log of %s: %w", args[0], err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep showing what it writes")
	cmd.Flags().IntVar(&tail, "tail", -1, "show this many last lines; -1 for all")
	return cmd
}
