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
	held, err := heldBy(ctx, from)
	if err != nil {
		return err
	}
	nodes, err := from.list(ctx, apis.KindNode)
	if err != nil {
		return err
	}
	for _, raw := range nodes {
		var n apis.Node
		if err := json.Unmarshal(raw, &n); err != nil {
			return err
		}
		if err := topNode(s, n.Status, held); err != nil {
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
	slices.SortStableFunc(kernels, byHost)
	t := newTable(s.out, "KERNEL", "PHASE", "AGE", "SLOTS", "IMAGE")
	for _, k := range kernels {
		t.row(kernelName(k), string(k.Status.Phase), age(cmp.Or(k.Status.StartedAt, k.Status.CreatedAt)), amounts(k.Spec.Slots), k.Spec.Image.Canonical)
	}
	return t.Flush()
}

// heldBy sums what the bindings hold: the node's own sum is some seconds old.
func heldBy(ctx context.Context, from *source) (slots.Amounts, error) {
	list, err := from.list(ctx, apis.KindBinding)
	if err != nil {
		return nil, err
	}
	sum := slots.Amounts{}
	for _, raw := range list {
		var b apis.Binding
		if err := json.Unmarshal(raw, &b); err != nil {
			return nil, err
		}
		for _, bySlot := range b.Status.Allocations {
			for slot, byDevice := range bySlot {
				for _, text := range byDevice {
					a, err := slots.ParseAmount(text)
					if err != nil {
						return nil, fmt.Errorf("binding %s, slot %s: %w", b.Name, slot, err)
					}
					sum = sum.Add(slots.Amounts{slot: a})
				}
			}
		}
	}
	return sum, nil
}

// topNode shows each slot of the node.
func topNode(s streams, st apis.NodeStatus, held slots.Amounts) error {
	capacity, err := slots.ParseAmounts(st.Capacity)
	if err != nil || len(capacity) == 0 {
		return err
	}
	t := newTable(s.out, "SLOT", "CAPACITY", "ALLOCATED", "FREE", "RESERVED")
	for _, name := range capacity.Slots() {
		t.row(name, slotValue(name, capacity[name].Plain()), slotValue(name, held[name].Plain()),
			slotValue(name, capacity[name].Sub(held[name]).Plain()), slotValue(name, cmp.Or(st.Reserved[name], "0")))
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
