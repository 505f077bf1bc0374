// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"agentd/pkg/apis"
)

func newEventsCommand(s streams, g *globals) *cobra.Command {
	var follow bool
	var f format
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what was, or is to be, reported to the manager",
		Long: `Show the events of this node, oldest first. A node with a manager keeps them
until it has them; one without keeps the last thousand.`,
		Example: `  agentd events
  agentd events -f -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !follow {
				return g.get(cmd.Context(), s, apis.KindEvent, "", f)
			}
			return g.watch(cmd.Context(), s, apis.KindEvent, "", f)
		},
	}
	formatFlag(cmd, &f, formatJSON, formatYAML)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep showing new ones")
	return cmd
}
