// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"agentd/pkg/apis"
	"agentd/pkg/slots"
)

func newTopCommand(s streams, g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Show what the node has, and which kernel holds how much of it",
		Example: `  agentd top
  watch agentd top`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := g.source(cmd.Context(), s)
			if err != nil {
				return err
			}
			return top(cmd.Context(), s, from)
		},
	}
}

func top(ctx context.Context, s streams, from *source) error {
	nodes, err := from.list(ctx, apis.KindNode)
	if err != nil {
		return err
	}
	for _, raw := range nodes {
		var n apis.Node
		if err := json.Unmarshal(raw, &n); err != nil {
			return err
		}
		if err := topNode(s, n.Status); err != nil {
			return err
		}
	}
	list, err := from.list(ctx, apis.KindKernel)
	if err != nil {
		return err
	}
	kernels := make([]apis.Kernel, len(list))
	for i, raw := range list {
		if err := json.Unmarshal(raw, &kernels[i]); err != nil {
			return err
		}
	}
	slices.SortStableFunc(kernels, func(a, b apis.Kernel) int {
		return cmp.Or(cmp.Compare(a.Spec.SessionID, b.Spec.SessionID), cmp.Compare(a.Spec.LocalRank, b.Spec.LocalRank))
	})
	t := newTable(s.out, "KERNEL", "PHASE", "AGE", "SLOTS", "IMAGE")
	for _, k := range kernels {
		t.row(kernelName(k), string(k.Status.Phase), age(cmp.Or(k.Status.StartedAt, k.Status.CreatedAt)), amounts(k.Spec.Slots), k.Spec.Image.Canonical)
	}
	return t.Flush()
}

// topNode shows each slot of the node.
func topNode(s streams, st apis.NodeStatus) error {
	capacity, err := slots.ParseAmounts(st.Capacity)
	if err != nil || len(capacity) == 0 {
		return err
	}
	t := newTable(s.out, "SLOT", "CAPACITY", "ALLOCATED", "FREE", "RESERVED")
	for _, name := range capacity.Slots() {
		one := func(m map[string]string) string { return cmp.Or(m[name], "0") }
		free := "?"
		if held, err := slots.ParseAmount(one(st.Allocated)); err == nil {
			free = capacity[name].Sub(held).Plain()
		}
		t.row(name, slotValue(name, one(st.Capacity)), slotValue(name, one(st.Allocated)), slotValue(name, free), slotValue(name, one(st.Reserved)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out)
	return err
}

// slotValue writes an amount of a slot without the slot's name.
func slotValue(name, text string) string {
	out := amounts(map[string]string{name: text})
	if len(out) > len(name) {
		return out[len(name)+1:]
	}
	return text
}
