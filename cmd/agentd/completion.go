// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
)

// completeTime bounds the question that stands behind a press of the tab key.
const completeTime = time.Second

func newCompletionCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "completion {bash | zsh | fish}",
		Short: "Print the completion script of a shell",
		Long:  "Print a script that completes commands, flags, kinds and the names of objects.",
		Example: `  source <(agentd completion bash)
  agentd completion zsh > "${fpath[1]}/_agentd"
  agentd completion fish > ~/.config/fish/completions/agentd.fish`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(s.out, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(s.out)
			}
			return cmd.Root().GenFishCompletion(s.out, true)
		},
	}
}

// completeObjects completes KIND NAME.
func (g *globals) completeObjects(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		var out []string
		for _, k := range admin.KindNames() {
			out = append(out, k.Plural)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	case 1:
		if kind, err := admin.ParseKind(args[0]); err == nil {
			return g.names(cmd.Context(), kind), cobra.ShellCompDirectiveNoFileComp
		}
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeDeletable completes session NAME and kernel NAME.
func (g *globals) completeDeletable(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return []string{"session", "kernel"}, cobra.ShellCompDirectiveNoFileComp
	}
	return g.completeObjects(cmd, args, word)
}

// completeKernels completes the name of a kernel.
func (g *globals) completeKernels(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return g.names(cmd.Context(), apis.KindKernel), cobra.ShellCompDirectiveNoFileComp
}

// names are the names that people use for the objects of a kind.
func (g *globals) names(ctx context.Context, kind apis.Kind) []string {
	c, err := g.client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	list, err := c.List(ctx, kind)
	if err != nil {
		return nil
	}
	var out []string
	for _, raw := range list {
		out = append(out, nameFor(kind, raw))
	}
	return out
}

func nameFor(kind apis.Kind, raw json.RawMessage) string {
	switch kind { //nolint:exhaustive // the others have one name only
	case apis.KindKernel:
		var k apis.Kernel
		if json.Unmarshal(raw, &k) == nil {
			return kernelName(k)
		}
	case apis.KindClusterSession:
		var x apis.ClusterSession
		if json.Unmarshal(raw, &x) == nil && x.Spec.Title != "" {
			return x.Spec.Title
		}
	}
	m, err := metaOf(raw)
	if err != nil {
		return ""
	}
	return m.Name
}
