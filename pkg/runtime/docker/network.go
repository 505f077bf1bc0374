// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/swarm"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

const (
	driverBridge  = "bridge"
	driverOverlay = "overlay"
	optionMTU     = "com.docker.network.driver.mtu"
)

// networks is the engine as runtime.Networks.
type networks struct{ e *Engine }

// Ensure makes the network if it is not there and returns its ID. Engines
// before API 1.44 make a second network of the same name without a word, so
// creation is one at a time for each name and always looks first.
//
// An external overlay that the node does not show yet is fine on a member of
// a swarm: the engine joins it with the first container. The ID is then empty.
func (n networks) Ensure(ctx context.Context, name string, spec apis.NetworkSpec) (string, error) {
	what := "network " + name
	unlock, err := n.e.names.lock(ctx, name)
	if err != nil {
		return "", fmt.Errorf("%s: waiting for another request for it: %w", what, err)
	}
	defer unlock()

	for range 2 { // a second look when somebody else was quicker
		found, err := n.named(ctx, what, name)
		if err != nil {
			return "", err
		}
		if id, err := n.choose(ctx, name, spec, found); err != nil || id != "" {
			return id, err
		}
		if spec.External {
			return "", n.mayAppear(ctx, what, spec)
		}
		id, err := n.create(ctx, what, name, spec)
		if err == nil || !errors.Is(err, apis.ErrConflict) {
			return id, err
		}
	}
	return "", classed{fmt.Errorf("%s: the engine says that it exists and does not list it; try again", what), apis.ErrUnavailable}
}

// named lists the networks of exactly this name; the engine's own filter also
// finds names that merely contain it.
func (n networks) named(ctx context.Context, what, name string) ([]network.Summary, error) {
	var found []network.Summary
	err := n.e.call(ctx, n.e.timeout, what, func(ctx context.Context, conn *connection) error {
		out, err := conn.NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("name", name)})
		found = slices.DeleteFunc(out.Items, func(s network.Summary) bool { return s.Name != name })
		return err
	})
	return found, err
}

// choose picks the network among those of the name; "" if there is none.
func (n networks) choose(ctx context.Context, name string, spec apis.NetworkSpec, found []network.Summary) (string, error) {
	if len(found) == 0 {
		return "", nil
	}
	mine := slices.DeleteFunc(slices.Clone(found), func(s network.Summary) bool { return !n.usable(s) })
	switch {
	case spec.External && len(found) == 1:
		return found[0].ID, nil
	case len(mine) == 1:
		if !spec.External && spec.Driver != "" && mine[0].Driver != spec.Driver {
			return "", conflictf("network %s exists with driver %s, not %s; remove it first", name, mine[0].Driver, spec.Driver)
		}
		return mine[0].ID, nil
	case len(mine) > 1 && !spec.External:
		return n.keepOne(ctx, name, mine)
	case len(found) == 1:
		return "", conflictf("network %s (%s) exists and is not this agent's; remove or rename it", name, short(found[0].ID))
	}
	ids := make([]string, 0, len(found))
	for _, s := range found {
		ids = append(ids, short(s.ID))
	}
	slices.Sort(ids) // equal trouble, equal words
	return "", conflictf("network %s is ambiguous: %s have that name and not exactly one is this agent's; remove the others by ID",
		name, strings.Join(ids, ", "))
}

// keepOne mends what a lost answer on an old engine left: several networks of
// ours with one name, which no container can name any more. The one that is in
// use stays, else the oldest.
func (n networks) keepOne(ctx context.Context, name string, mine []network.Summary) (string, error) {
	used := make(map[string]int, len(mine))
	for _, s := range mine {
		count, err := n.endpoints(ctx, s.ID)
		if err != nil {
			return "", err
		}
		used[s.ID] = count
	}
	slices.SortFunc(mine, func(a, b network.Summary) int {
		return cmp.Or(cmp.Compare(used[b.ID], used[a.ID]), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	for _, s := range mine[1:] {
		if used[s.ID] > 0 {
			return "", conflictf("network %s is ambiguous: %s and %s are both this agent's and in use; end their containers",
				name, short(mine[0].ID), short(s.ID))
		}
		if err := n.removeID(ctx, name, s.ID); err != nil {
			return "", err
		}
	}
	return mine[0].ID, nil
}

// mayAppear tells whether an external network that is not listed can still be joined.
func (n networks) mayAppear(ctx context.Context, what string, spec apis.NetworkSpec) error {
	if spec.Driver == driverOverlay {
		info, err := n.e.Info(ctx)
		if err != nil {
			return err
		}
		if info.SwarmState == string(swarm.LocalNodeStateActive) {
			return nil
		}
		return classed{fmt.Errorf("%s: not on this node, and its engine is no active member of a swarm (state %q); join the swarm first",
			what, info.SwarmState), apis.ErrNotFound}
	}
	return classed{fmt.Errorf("%s: no such network on this node; create it first", what), apis.ErrNotFound}
}

func (n networks) create(ctx context.Context, what, name string, spec apis.NetworkSpec) (string, error) {
	opt := client.NetworkCreateOptions{
		Driver: cmp.Or(spec.Driver, driverBridge),
		Labels: map[string]string{
			apis.LabelClusterNetwork: "1", apis.LabelAgentID: n.e.agentID, apis.LabelOwner: n.e.agentID,
		},
	}
	opt.Attachable = opt.Driver == driverOverlay
	if spec.SessionID != "" {
		opt.Labels[apis.LabelSessionID] = spec.SessionID
	}
	if spec.MTU > 0 {
		opt.Options = map[string]string{optionMTU: strconv.Itoa(spec.MTU)}
	}
	var id string
	err := n.e.call(ctx, n.e.timeout, "create "+what, func(ctx context.Context, conn *connection) error {
		out, err := conn.NetworkCreate(ctx, name, opt)
		id = out.ID
		return err
	})
	return id, err
}

// Remove removes our networks of that name, by their IDs; absent is success.
// One that containers are still attached to is an ErrConflict naming them.
func (n networks) Remove(ctx context.Context, name string) error {
	unlock, err := n.e.names.lock(ctx, name)
	if err != nil {
		return fmt.Errorf("network %s: waiting for another request for it: %w", name, err)
	}
	defer unlock()
	found, err := n.named(ctx, "network "+name, name)
	if err != nil {
		return err
	}
	for _, s := range found {
		if !n.usable(s) {
			continue
		}
		if err := n.removeID(ctx, name, s.ID); err != nil {
			return err
		}
	}
	return nil
}

func (n networks) removeID(ctx context.Context, name, id string) error {
	return n.e.call(ctx, n.e.timeout, "remove network "+name, func(ctx context.Context, conn *connection) error {
		_, err := conn.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		if !isInUse(err) {
			return err
		}
		in, lookErr := conn.NetworkInspect(ctx, id, client.NetworkInspectOptions{})
		if errdefs.IsNotFound(lookErr) {
			return nil
		}
		var users []string
		for _, ep := range in.Network.Containers {
			users = append(users, ep.Name)
		}
		slices.Sort(users)
		return classed{fmt.Errorf("still in use by [%s]: %w", strings.Join(users, " "), err), apis.ErrConflict}
	})
}

// List lists those with our label and agent ID.
func (n networks) List(ctx context.Context) ([]runtime.NetworkState, error) {
	var items []network.Summary
	err := n.e.call(ctx, n.e.timeout, "list networks", func(ctx context.Context, conn *connection) error {
		out, err := conn.NetworkList(ctx, client.NetworkListOptions{
			Filters: client.Filters{}.Add("label", apis.LabelClusterNetwork),
		})
		items = slices.DeleteFunc(out.Items, func(s network.Summary) bool { return !apis.OwnedBy(s.Labels, n.e.agentID) })
		return err
	})
	if err != nil {
		return nil, err
	}
	states := make([]runtime.NetworkState, len(items))
	looks, lookCtx := errgroup.WithContext(ctx)
	looks.SetLimit(parallelLooks)
	for i, s := range items {
		states[i] = runtime.NetworkState{
			ID: s.ID, Name: s.Name, Driver: s.Driver, SessionID: s.Labels[apis.LabelSessionID], CreatedAt: s.Created.UTC(),
		}
		looks.Go(func() error {
			count, err := n.endpoints(lookCtx, s.ID)
			states[i].Endpoints = count
			return err
		})
	}
	if err := looks.Wait(); err != nil {
		return nil, err
	}
	// Those that went away meanwhile are not there.
	return slices.DeleteFunc(states, func(s runtime.NetworkState) bool { return s.Endpoints < 0 }), nil
}

// endpoints counts what is attached to a network; -1 if there is none of the ID.
// Listings do not tell.
func (n networks) endpoints(ctx context.Context, id string) (int, error) {
	count := -1
	err := n.e.call(ctx, n.e.timeout, "inspect network "+short(id), func(ctx context.Context, conn *connection) error {
		out, err := conn.NetworkInspect(ctx, id, client.NetworkInspectOptions{})
		if errdefs.IsNotFound(err) {
			return nil
		}
		if err == nil {
			count = len(out.Network.Containers)
		}
		return err
	})
	return count, err
}

// usable networks are ours, or local ones of the Python agent, which does not
// write its ID on them; those are taken over by name.
func (n networks) usable(s network.Summary) bool {
	if s.Labels[apis.LabelClusterNetwork] == "" {
		return false
	}
	labels := maps.Clone(s.Labels)
	if _, ok := labels[apis.LabelAgentID]; !ok && s.Driver == driverBridge {
		return true
	}
	return apis.OwnedBy(labels, n.e.agentID)
}

func conflictf(format string, args ...any) error {
	return classed{fmt.Errorf(format, args...), apis.ErrConflict}
}
