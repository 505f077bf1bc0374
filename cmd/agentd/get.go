// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
)

func newGetCommand(s streams, g *globals) *cobra.Command {
	var f format
	var watch bool
	cmd := &cobra.Command{
		Use:   "get KIND [NAME]",
		Short: "Show objects: what is wanted, and what is seen of it",
		Long: `Show the objects of one kind, or one of them. Secrets are masked.

` + kindHelp() + `

A session is named by its name or ID; a kernel and its parts by SESSION/HOST, by
ID, or by the beginning of one. While no daemon runs, the checkpoint is shown.`,
		Example: `  agentd get kernels
  agentd get kernel demo/main1 -o yaml
  agentd get sessions -o wide
  agentd get kernels -w`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: g.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := admin.ParseKind(args[0])
			if err != nil {
				return usageError{err}
			}
			name := ""
			if len(args) == 2 {
				name = args[1]
			}
			if watch {
				return g.watch(cmd.Context(), s, kind, name, f)
			}
			return g.get(cmd.Context(), s, kind, name, f)
		},
	}
	formatFlag(cmd, &f, formatWide, formatJSON, formatYAML, formatName)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep showing changes")
	return cmd
}

// kindHelp lists the kinds with their names.
func kindHelp() string {
	var out strings.Builder
	out.WriteString("Kinds:")
	for _, k := range admin.KindNames() {
		fmt.Fprintf(&out, "\n  %-16s %s", k.Plural, strings.Join(k.Short, " "))
	}
	return out.String()
}

func (g *globals) get(ctx context.Context, s streams, kind apis.Kind, name string, f format) error {
	from, err := g.source(ctx, s)
	if err != nil {
		return err
	}
	if name != "" {
		raw, err := from.get(ctx, kind, name)
		if err != nil {
			return err
		}
		if f == formatJSON || f == formatYAML {
			return printData(s.out, f, raw)
		}
		return printObjects(s.out, kind, []json.RawMessage{raw}, f)
	}
	list, err := from.list(ctx, kind)
	if err != nil {
		return err
	}
	if len(list) == 0 && (f == formatTable || f == formatWide) {
		_, err := fmt.Fprintf(s.err, "no %s\n", plural(kind))
		return err
	}
	if kind == apis.KindKernel {
		sortKernels(list)
	}
	return printObjects(s.out, kind, list, f)
}

// sortKernels puts kernels into the order of their hosts.
func sortKernels(list []json.RawMessage) {
	slices.SortStableFunc(list, func(a, b json.RawMessage) int {
		var x, y apis.Kernel
		if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
			return 0
		}
		return byHost(x, y)
	})
}

func plural(kind apis.Kind) string {
	for _, k := range admin.KindNames() {
		if k.Kind == kind {
			return k.Plural
		}
	}
	return string(kind)
}

// printObjects writes objects of one kind.
func printObjects(w io.Writer, kind apis.Kind, list []json.RawMessage, f format) error {
	switch f {
	case formatJSON, formatYAML:
		if list == nil {
			list = []json.RawMessage{}
		}
		return printData(w, f, struct {
			Items []json.RawMessage `json:"items"`
		}{list})
	case formatName:
		for _, raw := range list {
			m, err := metaOf(raw)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s/%s\n", kind, m.Name); err != nil {
				return err
			}
		}
		return nil
	case formatTable, formatWide:
	}
	v, wide := viewOf(kind), f == formatWide
	t := newTable(w, v.titles(wide)...)
	for _, raw := range list {
		cells, err := v.row(raw, wide)
		if err != nil {
			return err
		}
		t.row(cells...)
	}
	return t.Flush()
}

// metaOf reads the part that all objects have.
func metaOf(raw json.RawMessage) (apis.Meta, error) {
	var o struct {
		apis.Meta `json:"metadata"`
	}
	err := json.Unmarshal(raw, &o)
	return o.Meta, err
}

// watch prints objects as they change.
func (g *globals) watch(ctx context.Context, s streams, kind apis.Kind, name string, f format) error {
	c, err := g.client()
	if err != nil {
		return err
	}
	if name != "" { // the daemon knows what people call it
		raw, err := c.Get(ctx, kind, name)
		if err != nil {
			return err
		}
		m, err := metaOf(raw)
		if err != nil {
			return err
		}
		name = m.Name
	}
	p := watchPrinter{w: s.out, kind: kind, name: name, f: f}
	err = c.Watch(ctx, kind, p.take)
	if err == nil {
		return fmt.Errorf("%w any more: it ended", admin.ErrUnreachable)
	}
	if errors.Is(err, errWatched) {
		return nil
	}
	return err
}

// errWatched ends a watch of one object that has gone.
var errWatched = errors.New("the object has gone")
