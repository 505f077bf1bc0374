// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/reconciler"
	"agentd/pkg/runtime"
)

// onceReport is what "agentd reconcile --once" did, or would do.
type onceReport struct {
	DryRun bool       `json:"dryRun"`
	Items  []planItem `json:"items"`
	// Wrong lists what is still not as wanted.
	Wrong []string `json:"wrong,omitempty"`

	owners map[string]string // network or scratch or container → who wants it
	ends   map[string]bool   // kernels that ended
}

// planItem is one line of the plan.
type planItem struct {
	// Sign is + for made, - for removed, ~ for changed, empty for reported.
	Sign   string    `json:"sign,omitempty"`
	Kind   apis.Kind `json:"kind"`
	Name   string    `json:"name"`
	Action string    `json:"action"`
	Why    string    `json:"why,omitempty"`
}

func eventNames(t *controller.Tables) map[string]bool {
	out := map[string]bool{}
	for _, n := range t.Events.Reader().Names() {
		out[n] = true
	}
	return out
}

// newOnceReport looks at the store after the run.
func newOnceReport(t *controller.Tables, before map[string]bool, leftovers []string) *onceReport {
	r := &onceReport{Items: []planItem{}, owners: map[string]string{}, ends: map[string]bool{}}
	for _, e := range t.Events.Reader().List() {
		if before[e.Name] || e.Spec.Type != apis.EventKernelTerminated {
			continue
		}
		r.ends[e.Spec.KernelID] = true
		action := "ends: " + e.Spec.Reason
		// The code of one that agentd stops itself is not known before.
		if e.Spec.ExitCode != nil && e.Spec.Reason == apis.ReasonSelfTerminated {
			action += fmt.Sprintf(" (exit %d)", *e.Spec.ExitCode)
		}
		r.Items = append(r.Items, planItem{Kind: apis.KindKernel, Name: e.Spec.KernelID, Action: action, Why: e.Spec.Message})
	}
	for _, n := range t.Networks.Reader().List() {
		r.owners[n.Name] = n.Owner.String()
		r.check(apis.KindNetwork, n.Meta, n.Status.Conditions)
	}
	for _, c := range t.Containers.Reader().List() {
		r.owners[c.Spec.EngineName] = c.Owner.String()
		if c.Labels[reconciler.LeftAlone] == "" {
			r.check(apis.KindContainer, c.Meta, c.Status.Conditions)
		}
	}
	for _, x := range t.Scratches.Reader().List() {
		r.owners[x.Name] = x.Owner.String()
		r.check(apis.KindScratch, x.Meta, x.Status.Conditions)
	}
	for _, k := range t.Kernels.Reader().List() {
		r.check(apis.KindKernel, k.Meta, k.Status.Conditions)
	}
	for _, s := range t.Sessions.Reader().List() {
		r.check(apis.KindClusterSession, s.Meta, s.Status.Conditions)
	}
	for _, l := range leftovers {
		r.Wrong = append(r.Wrong, l+": nothing wants it, and it is left alone; --sweep removes it")
	}
	return r
}

// check notes an object that is not as wanted.
func (r *onceReport) check(kind apis.Kind, m apis.Meta, c apis.Conditions) {
	if c.IsReady(m.Generation) && !m.Deleting {
		return
	}
	x, _ := c.Get(apis.Ready)
	r.Wrong = append(r.Wrong, fmt.Sprintf("%s/%s: not ready: %s", kind, m.Name, cmp.Or(x.Message, x.Reason, "no status yet")))
}

// addChanges turns what was done to the node into lines, one for each thing.
func (r *onceReport) addChanges(changes []runtime.Change) {
	byThing := map[string]*planItem{}
	for _, c := range changes {
		key := string(c.Kind) + "/" + c.Name
		it, ok := byThing[key]
		if !ok {
			it = &planItem{Kind: c.Kind, Name: c.Name, Sign: signOf(c.Op)}
			byThing[key] = it
		}
		text := c.Op
		if c.Detail != "" {
			text = c.Detail
			if c.Op != "write" {
				text = c.Op + " " + c.Detail
			}
		}
		if it.Action == "" {
			it.Action = text
		} else if !strings.Contains(it.Action, text) {
			it.Action += ", " + text
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byThing)) {
		it := byThing[key]
		it.Why = "no object wants it"
		if o := r.owners[it.Name]; o != "" && o != "/" {
			it.Why = "wanted by " + o
		} else if r.endedWith(it.Name) {
			it.Why = "its kernel ends"
		}
		r.Items = append(r.Items, *it)
	}
	slices.SortStableFunc(r.Items, func(a, b planItem) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

func (r *onceReport) endedWith(name string) bool {
	for k := range r.ends {
		if name == k || strings.HasSuffix(name, "."+k) {
			return true
		}
	}
	return false
}

func signOf(op string) string {
	switch op {
	case "create", "pull", "start":
		return "+"
	case "write":
		return "~"
	}
	return "-"
}

func (r *onceReport) print(w io.Writer, format string) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	case "yaml":
		b, err := yaml.Marshal(r)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	n := map[string]int{}
	for _, it := range r.Items {
		n[it.Sign]++
		fmt.Fprintf(tw, "%s %s\t%s\t%s\t%s\n", cmp.Or(it.Sign, " "), it.Kind, it.Name, it.Action, it.Why)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	verb := "done"
	if r.DryRun {
		verb = "plan"
	}
	fmt.Fprintf(w, "%s: %d to create, %d to change, %d to remove, %d to report\n", verb, n["+"], n["~"], n["-"], n[""])
	for _, x := range r.Wrong {
		fmt.Fprintf(w, "! %s\n", x)
	}
	return nil
}

// exit is nil, or an error that carries the exit code and says nothing more.
func (r *onceReport) exit() error {
	switch {
	case r.DryRun && len(r.Items) > 0:
		return exitError(exitPlanned)
	case len(r.Wrong) > 0:
		return exitError(exitNotConverged)
	}
	return nil
}
