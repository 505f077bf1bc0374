// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
)

func newDescribeCommand(s streams, g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "describe KIND NAME",
		Short: "Show one object with its parts, conditions and events",
		Long:  "Show one object for people to read: conditions, parts, spec, status and events.\n\n" + kindHelp(),
		Example: `  agentd describe kernel demo/sub1
  agentd describe session demo
  agentd describe node $(agentd get nodes -o name | cut -d/ -f2)`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: g.completeObjects,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := admin.ParseKind(args[0])
			if err != nil {
				return usageError{err}
			}
			from, err := g.source(cmd.Context(), s)
			if err != nil {
				return err
			}
			d := description{from: from, out: s.out}
			return d.object(cmd.Context(), kind, args[1])
		},
	}
}

// described is any object, as far as all have the same form.
type described struct {
	apis.Meta `json:"metadata"`
	Spec      json.RawMessage `json:"spec"`
	Status    json.RawMessage `json:"status"`
}

func (o *described) conditions() apis.Conditions {
	var st struct {
		Conditions apis.Conditions `json:"conditions"`
	}
	_ = json.Unmarshal(o.Status, &st) // events have none
	return st.Conditions
}

// description writes about one object.
type description struct {
	from *source
	out  io.Writer
}

func (d *description) object(ctx context.Context, kind apis.Kind, name string) error {
	raw, err := d.from.get(ctx, kind, name)
	if err != nil {
		return err
	}
	var o described
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	if err := d.head(kind, &o, raw); err != nil {
		return err
	}
	if err := d.conditions(o.conditions()); err != nil {
		return err
	}
	switch kind { //nolint:exhaustive // the others have no parts
	case apis.KindKernel:
		err = d.parts(ctx, raw)
	case apis.KindClusterSession:
		err = d.kernels(ctx, o.Name)
	}
	if err != nil {
		return err
	}
	for _, part := range []struct {
		title string
		raw   json.RawMessage
	}{{"Spec", o.Spec}, {"Status", withoutConditions(o.Status)}} {
		if err := d.data(part.title, part.raw); err != nil {
			return err
		}
	}
	return d.events(ctx, o.Name)
}

func (d *description) head(kind apis.Kind, o *described, raw json.RawMessage) error {
	t := newTable(d.out)
	t.row("Kind:", string(kind))
	t.row("Name:", o.Name)
	if kind == apis.KindKernel {
		var k apis.Kernel
		if err := json.Unmarshal(raw, &k); err != nil {
			return err
		}
		t.row("Host:", kernelName(k))
		t.row("Phase:", string(k.Status.Phase))
		t.row("Age:", age(k.Status.CreatedAt))
		if s := services(k); s != "" {
			t.row("Services:", s)
		}
	}
	if o.Owner != (apis.Key{}) {
		t.row("Owner:", o.Owner.String())
	}
	t.row("Generation:", fmt.Sprint(o.Generation))
	if len(o.Finalizers) > 0 {
		t.row("Finalizers:", strings.Join(o.Finalizers, ", "))
	}
	if len(o.Holds) > 0 {
		t.row("Used by:", strings.Join(o.Holds, ", "))
	}
	if o.Deleting {
		t.row("Deleting:", strings.TrimSpace(o.DeleteReason+" "+o.DeleteMessage))
	}
	return t.Flush()
}

func (d *description) title(s string) error {
	_, err := fmt.Fprintf(d.out, "\n%s:\n", s)
	return err
}

func (d *description) conditions(list apis.Conditions) error {
	if len(list) == 0 {
		return nil
	}
	if err := d.title("Conditions"); err != nil {
		return err
	}
	t := newTable(d.out, "  TYPE", "STATUS", "SINCE", "REASON", "MESSAGE")
	for _, c := range list {
		t.row("  "+string(c.Type), yesNo(c.Status), age(c.Since), c.Reason, c.Message)
	}
	return t.Flush()
}

// parts shows how far the parts of a kernel are.
func (d *description) parts(ctx context.Context, raw json.RawMessage) error {
	var k apis.Kernel
	if err := json.Unmarshal(raw, &k); err != nil {
		return err
	}
	if err := d.title("Parts"); err != nil {
		return err
	}
	t := newTable(d.out, "  KIND", "READY", "MESSAGE")
	for _, p := range []apis.Key{
		{Kind: apis.KindClusterSession, Name: k.Spec.SessionID},
		{Kind: apis.KindImage, Name: apis.ImageName(k.Spec.Image)},
		{Kind: apis.KindBinding, Name: k.Name},
		{Kind: apis.KindScratch, Name: k.Name},
		{Kind: apis.KindContainer, Name: k.Name},
	} {
		part, err := d.from.get(ctx, p.Kind, p.Name)
		if err != nil {
			t.row("  "+string(p.Kind), "", "there is none")
			continue
		}
		var o described
		if err := json.Unmarshal(part, &o); err != nil {
			return err
		}
		t.row("  "+string(p.Kind), ready(o.Meta, o.conditions()), why(o.conditions()))
	}
	return t.Flush()
}

// kernels shows the kernels of a session.
func (d *description) kernels(ctx context.Context, session string) error {
	list, err := d.from.list(ctx, apis.KindKernel)
	if err != nil {
		return err
	}
	if err := d.title("Kernels"); err != nil {
		return err
	}
	sortKernels(list)
	t := newTable(d.out, "  HOST", "PHASE", "AGE", "ID", "MESSAGE")
	for _, raw := range list {
		var k apis.Kernel
		if err := json.Unmarshal(raw, &k); err != nil {
			return err
		}
		if k.Spec.SessionID == session {
			message := cmp.Or(k.Status.EndedMessage, k.DeleteMessage, why(k.Status.Conditions))
			t.row("  "+k.Spec.Hostname, string(k.Status.Phase), age(k.Status.CreatedAt), k.Name, message)
		}
	}
	return t.Flush()
}

// withoutConditions leaves out what stands above already.
func withoutConditions(raw json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return raw
	}
	delete(m, "conditions")
	b, err := json.Marshal(m)
	if err != nil {
		return raw
	}
	return b
}

// data shows a spec or a status, indented.
func (d *description) data(title string, raw json.RawMessage) error {
	if s := string(raw); s == "" || s == "null" || s == "{}" {
		return nil
	}
	if err := d.title(title); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := printData(&b, formatYAML, raw); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprint(d.out, "  ", line); err != nil {
			return err
		}
	}
	return nil
}

// events shows what was reported about a kernel or a session.
func (d *description) events(ctx context.Context, name string) error {
	list, err := d.from.list(ctx, apis.KindEvent)
	if err != nil {
		return err
	}
	t := newTable(d.out, "  TIME", "TYPE", "REASON", "MESSAGE")
	n := 0
	for _, raw := range list {
		var e apis.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		if e.Spec.KernelID == name || e.Spec.SessionID == name {
			t.row("  "+stamp(e.Spec.At), string(e.Spec.Type), e.Spec.Reason, e.Spec.Message)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	if err := d.title("Events"); err != nil {
		return err
	}
	return t.Flush()
}
