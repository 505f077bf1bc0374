// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

const (
	// stopSlack is how much longer than the grace the engine may take to stop,
	// killSlack how long a kill may take after that.
	stopSlack = 5 * time.Second
	killSlack = 10 * time.Second
)

// Find inspects one container by its engine name. A container of that name
// that another made is an ErrConflict that tells whose it is.
func (e *Engine) Find(ctx context.Context, engineName string) (runtime.ContainerState, bool, error) {
	what := "inspect container " + engineName
	in, found, err := e.inspect(ctx, what, engineName)
	if err != nil || !found {
		return runtime.ContainerState{}, false, err
	}
	state := inspected(in)
	if !apis.OwnedBy(state.Labels, e.agentID) {
		owner := state.Labels[apis.LabelAgentID]
		if owner == "" {
			owner = "someone else"
		}
		return runtime.ContainerState{}, false, classed{fmt.Errorf("%s: container %s of that name belongs to %s, not to agent %s; rename or remove it",
			what, short(in.ID), owner, e.agentID), apis.ErrConflict}
	}
	return state, true, nil
}

func (e *Engine) inspect(ctx context.Context, what, id string) (container.InspectResponse, bool, error) {
	var out container.InspectResponse
	found := true
	err := e.call(ctx, e.timeout, what, func(ctx context.Context, conn *connection) error {
		got, err := conn.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if isNotFound(err) {
			found = false
			return nil
		}
		out = got.Container
		return err
	})
	return out, found && err == nil, err
}

// Create makes a container and labels it with agent, incarnation and hash. A
// taken name is an ErrConflict, an image or volume that is not there an ErrNotFound.
func (e *Engine) Create(ctx context.Context, spec apis.ContainerSpec) (string, error) {
	what := "create container " + spec.EngineName
	req, err := createRequest(spec, e.agentID)
	if err == nil {
		req, err = applyOverrides(req, e.overrides)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	// The engine would choose a name of its own, and the container were lost.
	if spec.EngineName == "" {
		return "", apis.Terminalf(apis.ReasonInvalid, "%s: it has no name", what)
	}
	var id string
	err = e.call(ctx, e.timeout, what, func(ctx context.Context, conn *connection) error {
		out, err := conn.ContainerCreate(ctx, client.ContainerCreateOptions{
			Name: spec.EngineName, Config: req.Config, HostConfig: req.HostConfig, NetworkingConfig: req.NetworkingConfig,
		})
		id = out.ID
		return err
	})
	return id, err
}

// Start starts it; running already is success. A port in use is a
// PortInUseError. ErrNotFound always means the container itself.
func (e *Engine) Start(ctx context.Context, id string) error {
	return e.call(ctx, e.timeout, "start container "+short(id), func(ctx context.Context, conn *connection) error {
		_, err := conn.ContainerStart(ctx, id, client.ContainerStartOptions{})
		return err
	})
}

// Stop asks it to end and lets the engine kill it after the grace; stopped or
// absent is success. An engine that does not come back from stopping is asked
// once more, to kill; all together takes at most the grace and 15 s.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) error {
	grace = max(grace, 0)
	seconds := int(math.Ceil(grace.Seconds()))
	err := e.call(ctx, grace+min(stopSlack, e.timeout), "stop container "+short(id), func(ctx context.Context, conn *connection) error {
		_, err := conn.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
		return absentIsFine(err)
	})
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	return e.call(ctx, min(killSlack, e.timeout), "kill container "+short(id), func(ctx context.Context, conn *connection) error {
		_, err := conn.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIGKILL"})
		if errdefs.IsConflict(err) { // it does not run any more
			return nil
		}
		return absentIsFine(err)
	})
}

// Remove removes it with its anonymous volumes, by force; absent is success. A
// removal that is under way already is an ErrUnavailable: look again.
func (e *Engine) Remove(ctx context.Context, id string) error {
	return e.call(ctx, e.timeout, "remove container "+short(id), func(ctx context.Context, conn *connection) error {
		_, err := conn.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if errdefs.IsConflict(err) {
			return classed{errors.New(err.Error()), apis.ErrUnavailable}
		}
		return absentIsFine(err)
	})
}

// List lists this agent's containers in every state, those of the Python agent
// included. Only ended ones are looked at one by one, for their exit code; -1
// stands for one that could not be learned.
func (e *Engine) List(ctx context.Context) ([]runtime.ContainerState, error) {
	var items []container.Summary
	err := e.call(ctx, e.timeout, "list containers", func(ctx context.Context, conn *connection) error {
		// Every kernel container of every version has this label; filters for
		// two labels would have to hold both.
		out, err := conn.ContainerList(ctx, client.ContainerListOptions{
			All: true, Filters: client.Filters{}.Add("label", apis.LabelKernelID),
		})
		items = out.Items
		return err
	})
	if err != nil {
		return nil, err
	}
	states := make([]runtime.ContainerState, 0, len(items))
	var ended []int
	for _, item := range items {
		if !apis.OwnedBy(item.Labels, e.agentID) {
			continue
		}
		state := listed(item)
		if state.State == apis.ContainerExited {
			ended = append(ended, len(states))
		}
		states = append(states, state)
	}
	return states, e.completeEnded(ctx, states, ended)
}

// completeEnded fills in how containers ended. One that cannot be inspected
// keeps what the listing said: a single bad answer must not hide all the others.
func (e *Engine) completeEnded(ctx context.Context, states []runtime.ContainerState, ended []int) error {
	var looks errgroup.Group
	looks.SetLimit(parallelLooks)
	for _, i := range ended {
		looks.Go(func() error {
			s := &states[i]
			in, found, err := e.inspect(ctx, "inspect container "+s.EngineName, s.ID)
			if err == nil && found && in.State != nil {
				s.ExitCode, s.OOMKilled, s.Error = in.State.ExitCode, in.State.OOMKilled, in.State.Error
			}
			return ctx.Err()
		})
	}
	return looks.Wait()
}

// absentIsFine makes success of "there is no such thing".
func absentIsFine(err error) error {
	if isNotFound(err) {
		return nil
	}
	return err
}

// short is the part of an ID that people use.
func short(id string) string {
	const digits = 12
	if len(id) == 64 {
		return id[:digits]
	}
	return id
}
