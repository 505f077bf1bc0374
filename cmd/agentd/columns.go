// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentd/pkg/apis"
	"agentd/pkg/slots"
)

// column is one column of the table of a kind.
type column[O any] struct {
	title string
	wide  bool
	cell  func(o O) string
}

// view makes rows of the objects of one kind.
type view struct {
	titles func(wide bool) []string
	row    func(raw json.RawMessage, wide bool) ([]string, error)
}

func newView[O any](columns ...column[O]) view {
	return view{
		titles: func(wide bool) []string {
			var out []string
			for _, c := range columns {
				if wide || !c.wide {
					out = append(out, c.title)
				}
			}
			return out
		},
		row: func(raw json.RawMessage, wide bool) ([]string, error) {
			var o O
			if err := json.Unmarshal(raw, &o); err != nil {
				return nil, err
			}
			var out []string
			for _, c := range columns {
				if wide || !c.wide {
					out = append(out, c.cell(o))
				}
			}
			return out, nil
		},
	}
}

// viewOf returns the table of a kind.
func viewOf(kind apis.Kind) view {
	switch kind {
	case apis.KindNode:
		return nodeView()
	case apis.KindClusterSession:
		return sessionView()
	case apis.KindKernel:
		return kernelView()
	case apis.KindNetwork:
		return newView(
			column[apis.Network]{"NAME", false, func(o apis.Network) string { return o.Name }},
			column[apis.Network]{"DRIVER", false, func(o apis.Network) string { return o.Spec.Driver }},
			column[apis.Network]{"READY", false, func(o apis.Network) string { return ready(o.Meta, o.Status.Conditions) }},
			column[apis.Network]{"ID", false, func(o apis.Network) string { return short(o.Status.ID) }},
			column[apis.Network]{"USED BY", true, func(o apis.Network) string { return strings.Join(o.Holds, " ") }},
		)
	case apis.KindImage:
		return newView(
			column[apis.Image]{"NAME", false, func(o apis.Image) string { return o.Name }},
			column[apis.Image]{"READY", false, func(o apis.Image) string { return ready(o.Meta, o.Status.Conditions) }},
			column[apis.Image]{"ARCH", false, func(o apis.Image) string { return o.Status.Architecture }},
			column[apis.Image]{"ID", false, func(o apis.Image) string { return short(o.Status.ID) }},
			column[apis.Image]{"MESSAGE", false, func(o apis.Image) string { return cmp.Or(o.Status.Progress, why(o.Status.Conditions)) }},
		)
	case apis.KindBinding:
		return newView(
			column[apis.Binding]{"NAME", false, func(o apis.Binding) string { return o.Name }},
			column[apis.Binding]{"READY", false, func(o apis.Binding) string { return ready(o.Meta, o.Status.Conditions) }},
			column[apis.Binding]{"SLOTS", false, func(o apis.Binding) string { return amounts(o.Spec.Slots) }},
			column[apis.Binding]{"PORTS", false, func(o apis.Binding) string { return ports(o.Status.Ports) }},
			column[apis.Binding]{"MESSAGE", false, func(o apis.Binding) string { return why(o.Status.Conditions) }},
		)
	case apis.KindScratch:
		return newView(
			column[apis.Scratch]{"NAME", false, func(o apis.Scratch) string { return o.Name }},
			column[apis.Scratch]{"READY", false, func(o apis.Scratch) string { return ready(o.Meta, o.Status.Conditions) }},
			column[apis.Scratch]{"PATH", false, func(o apis.Scratch) string { return o.Status.Path }},
			column[apis.Scratch]{"MESSAGE", false, func(o apis.Scratch) string { return why(o.Status.Conditions) }},
		)
	case apis.KindContainer:
		return newView(
			column[apis.Container]{"NAME", false, func(o apis.Container) string { return o.Name }},
			column[apis.Container]{"STATE", false, func(o apis.Container) string { return string(o.Status.State) }},
			column[apis.Container]{"READY", false, func(o apis.Container) string { return ready(o.Meta, o.Status.Conditions) }},
			column[apis.Container]{"ID", false, func(o apis.Container) string { return short(o.Status.ID) }},
			column[apis.Container]{"ENGINE NAME", true, func(o apis.Container) string { return o.Spec.EngineName }},
			column[apis.Container]{"INCARNATION", true, func(o apis.Container) string { return strconv.FormatInt(o.Spec.Incarnation, 10) }},
			column[apis.Container]{"MESSAGE", false, func(o apis.Container) string { return why(o.Status.Conditions) }},
		)
	case apis.KindEvent:
		return newView(
			column[apis.Event]{"TIME", false, func(o apis.Event) string { return stamp(o.Spec.At) }},
			column[apis.Event]{"TYPE", false, func(o apis.Event) string { return string(o.Spec.Type) }},
			column[apis.Event]{"KERNEL", false, func(o apis.Event) string { return o.Spec.KernelID }},
			column[apis.Event]{"REASON", false, func(o apis.Event) string { return o.Spec.Reason }},
			column[apis.Event]{"EXIT", false, func(o apis.Event) string { return exitCode(o.Spec.ExitCode) }},
			column[apis.Event]{"MESSAGE", false, func(o apis.Event) string { return o.Spec.Message }},
		)
	}
	return newView(column[struct{ apis.Meta }]{"NAME", false, func(o struct{ apis.Meta }) string { return o.Name }})
}

func nodeView() view {
	return newView(
		column[apis.Node]{"NAME", false, func(o apis.Node) string { return o.Name }},
		column[apis.Node]{"READY", false, func(o apis.Node) string { return ready(o.Meta, o.Status.Conditions) }},
		column[apis.Node]{"ENGINE", false, func(o apis.Node) string { return o.Status.EngineVersion }},
		column[apis.Node]{"KERNELS", false, func(o apis.Node) string { return counts(o.Status.Kernels) }},
		column[apis.Node]{"CAPACITY", false, func(o apis.Node) string { return amounts(o.Status.Capacity) }},
		column[apis.Node]{"ALLOCATED", false, func(o apis.Node) string { return amounts(o.Status.Allocated) }},
		column[apis.Node]{"EVENTS WAITING", true, func(o apis.Node) string { return strconv.Itoa(o.Status.PendingEvents) }},
		column[apis.Node]{"MESSAGE", false, func(o apis.Node) string { return why(o.Status.Conditions) }},
	)
}

func sessionView() view {
	return newView(
		column[apis.ClusterSession]{"NAME", false, func(o apis.ClusterSession) string { return cmp.Or(o.Spec.Title, o.Name) }},
		column[apis.ClusterSession]{"SIZE", false, func(o apis.ClusterSession) string { return strconv.Itoa(o.Spec.Size) }},
		column[apis.ClusterSession]{"READY", false, func(o apis.ClusterSession) string { return ready(o.Meta, o.Status.Conditions) }},
		column[apis.ClusterSession]{"HOSTS", false, func(o apis.ClusterSession) string { return strings.Join(o.Status.Hosts, ",") }},
		column[apis.ClusterSession]{"NETWORK", true, func(o apis.ClusterSession) string { return cmp.Or(o.Spec.Network.Name, string(o.Spec.Network.Mode)) }},
		column[apis.ClusterSession]{"ID", false, func(o apis.ClusterSession) string { return o.Name }},
		column[apis.ClusterSession]{"MESSAGE", false, func(o apis.ClusterSession) string { return why(o.Status.Conditions) }},
	)
}

func kernelView() view {
	return newView(
		column[apis.Kernel]{"NAME", false, kernelName},
		column[apis.Kernel]{"PHASE", false, func(o apis.Kernel) string { return string(o.Status.Phase) }},
		column[apis.Kernel]{"IMAGE", false, func(o apis.Kernel) string { return o.Spec.Image.Canonical }},
		column[apis.Kernel]{"SLOTS", false, func(o apis.Kernel) string { return amounts(o.Spec.Slots) }},
		column[apis.Kernel]{"AGE", false, func(o apis.Kernel) string { return age(o.Status.CreatedAt) }},
		column[apis.Kernel]{"ID", false, func(o apis.Kernel) string { return o.Name }},
		column[apis.Kernel]{"CONTAINER", true, func(o apis.Kernel) string { return short(o.Status.ContainerID) }},
		column[apis.Kernel]{"SERVICES", true, services},
		column[apis.Kernel]{"MESSAGE", false, func(o apis.Kernel) string {
			return cmp.Or(o.Status.EndedMessage, o.DeleteMessage, why(o.Status.Conditions))
		}},
	)
}

// byHost orders kernels by session, and within one as its hosts are.
func byHost(a, b apis.Kernel) int {
	session := func(k apis.Kernel) string { return cmp.Or(k.Spec.Environ[envSessionName], k.Spec.SessionID) }
	return cmp.Or(cmp.Compare(session(a), session(b)), cmp.Compare(a.Spec.SessionID, b.Spec.SessionID),
		cmp.Compare(a.Spec.LocalRank, b.Spec.LocalRank))
}

// envSessionName is the variable that carries a session's name (26.8).
const envSessionName = "BACKENDAI_SESSION_NAME"

// kernelName is SESSION/HOST, as ssh and logs take it.
func kernelName(o apis.Kernel) string {
	return cmp.Or(o.Spec.Environ[envSessionName], o.Spec.SessionID) + "/" + o.Spec.Hostname
}

func services(o apis.Kernel) string {
	var out []string
	for _, s := range o.Status.ServicePorts {
		for i, p := range s.HostPorts {
			name := s.Name
			if i > 0 {
				name = strconv.Itoa(s.ContainerPorts[min(i, len(s.ContainerPorts)-1)])
			}
			out = append(out, fmt.Sprintf("%s=%s:%d", name, o.Status.Host, p))
		}
	}
	return strings.Join(out, " ")
}

func ready(m apis.Meta, c apis.Conditions) string {
	switch {
	case m.Deleting:
		return "deleting"
	case c.IsReady(m.Generation):
		return "yes"
	}
	if _, ok := c.IsStalled(m.Generation); ok {
		return "failed"
	}
	return "no"
}

// why is what an object that is not ready says about it.
func why(c apis.Conditions) string {
	if x, ok := c.Get(apis.Ready); ok && !x.Status {
		return cmp.Or(x.Message, x.Reason)
	}
	return ""
}

// amounts writes slots in their order, memory in units that people read.
func amounts(texts map[string]string) string {
	a, err := slots.ParseAmounts(texts)
	if err != nil {
		return counts(texts)
	}
	var out []string
	for _, name := range a.Slots() {
		text := a[name].Plain()
		if strings.Contains(name, slots.Memory) {
			if b, err := slots.FormatBytes(a[name]); err == nil {
				text = b
			}
		}
		out = append(out, name+"="+text)
	}
	return strings.Join(out, " ")
}

func counts[V any](m map[string]V) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s=%v", name, m[name]))
	}
	return strings.Join(out, " ")
}

func ports(list []apis.PortLease) string {
	var out []string
	for _, p := range list {
		out = append(out, fmt.Sprintf("%s:%d→%d", p.HostIP, p.Host, p.Container))
	}
	return strings.Join(out, " ")
}

func exitCode(code *int) string {
	if code == nil {
		return ""
	}
	return strconv.Itoa(*code)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05.000")
}
