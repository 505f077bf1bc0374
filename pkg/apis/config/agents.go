// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// validateAllocations checks that no share is negative, in the common table
// and in every agent's own.
func (b *binder) validateAllocations(root *node) {
	b.validateShare(b.root.Resource.Allocations, at(root, "resource", "allocations"))
	for i, n := range entryNodes(root) {
		if share := at(n, "resource"); share != nil && i < len(b.root.Agents) {
			b.validateShare(b.root.Agents[i].Resource, share)
		}
	}
}

func (b *binder) validateShare(a *Allocations, n *node) {
	if a == nil || n == nil {
		return
	}
	if a.CPU < 0 {
		b.failAt(n, "cpu", fmt.Sprintf("Allocated cpu must not be a negative value, but given %d", a.CPU))
	}
	if a.Mem < 0 {
		b.failAt(n, "mem", fmt.Sprintf("Allocated mem must not be a negative value, but given %d", int64(a.Mem)))
	}
	for _, slot := range slices.Sorted(maps.Keys(a.Devices)) {
		if v := a.Devices[slot]; v.negative() {
			b.failAt(n, "devices", fmt.Sprintf("All allocated device resource values must not be a negative value, but %s is %s", slot, v))
		}
	}
}

// failAt records an error about one key of a table that is there.
func (b *binder) failAt(table *node, key, text string) {
	if n := lookup(table, key); n != nil {
		b.fail(n, text)
	}
}

// entryNodes returns the entries of [[agents]] as written.
func entryNodes(root *node) []*node {
	n := at(root, "agents")
	if n == nil {
		return nil
	}
	list, ok := n.value.([]*node)
	if !ok {
		return nil
	}
	return list
}

// validateAgents checks the rules between several agents, and between the
// agents and the allocation mode.
func (b *binder) validateAgents(root *node) {
	c := b.root
	nodes := entryNodes(root)
	if len(nodes) == 1 {
		b.fail(at(root, "agents"), "agents should not be specified with only 1 agent configuration. "+
			"Please use the default single agent mode if only 1 agent is needed.")
		return
	}
	if len(nodes) != len(c.Agents) {
		return // not a list; reported already
	}
	b.validateMode(root, nodes)

	seen := map[string]int{}
	for i, n := range nodes {
		a := &c.Agents[i]
		b.validateNode(&a.Agent, &a.Container, n)
		if first, twice := seen[a.Agent.ID]; twice {
			text := fmt.Sprintf("Duplicate agent IDs found! agents[%d] and agents[%d] are both %q", first, i, a.Agent.ID)
			if a.Agent.ID == "" {
				text = fmt.Sprintf("Duplicate agent IDs found! agents[%d] and agents[%d] have no agent.id; give each its own", first, i)
			}
			b.fail(n, text)
		} else {
			seen[a.Agent.ID] = i
		}
	}
	if c.Resource.AllocationMode != AllocateManual || len(nodes) == 0 {
		return
	}
	for i := range c.Agents[1:] {
		first, other := c.Agents[0].Resource, c.Agents[i+1].Resource
		if first == nil || other == nil {
			continue
		}
		one, two := slices.Sorted(maps.Keys(first.Devices)), slices.Sorted(maps.Keys(other.Devices))
		if !slices.Equal(one, two) {
			b.fail(nodes[i+1], fmt.Sprintf("All agents must have the same slots defined in the devices! agents[0] has [%s], agents[%d] has [%s]",
				strings.Join(one, ", "), i+1, strings.Join(two, ", ")))
		}
	}
}

// validateMode checks that shares are given in manual mode and only then.
func (b *binder) validateMode(root *node, entries []*node) {
	r := &b.root.Resource
	if r.AllocationMode == AllocateManual {
		const text = "On MANUAL mode, config must specify cpu and mem resource allocations"
		if len(entries) == 0 && r.Allocations == nil {
			b.reject(root, text+" in resource.allocations", "resource", "allocation-mode")
		}
		for i, n := range entries {
			if b.root.Agents[i].Resource == nil {
				b.fail(n, text+" in the table agents.resource")
			}
		}
		return
	}
	text := fmt.Sprintf("On non-MANUAL mode, config must not specify manual resource allocations. resource.allocation-mode is %q", r.AllocationMode)
	if r.Allocations != nil {
		b.reject(root, text, "resource", "allocations")
	}
	for _, n := range entries {
		if share := at(n, "resource"); share != nil {
			b.fail(share, text)
		}
	}
}
