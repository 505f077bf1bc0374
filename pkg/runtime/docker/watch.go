// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

// answered is the context key of a function to call once the engine accepted
// the request.
type answered struct{}

// announceAnswer tells whoever waits for it that the engine began its answer.
// The client itself does not show the moment at which a subscription stands.
func announceAnswer(resp *http.Response) {
	if resp.Request == nil || resp.StatusCode != http.StatusOK {
		return
	}
	if tell, ok := resp.Request.Context().Value(answered{}).(func()); ok {
		tell()
	}
}

// Watch streams hints about our containers since the given time; the zero time
// means from now. It returns nil when the engine ended the stream.
func (e *Engine) Watch(ctx context.Context, since time.Time, ready func(), fn func(runtime.Event)) error {
	const what = "watch events"
	opt := client.EventsListOptions{
		Filters: client.Filters{}.Add("type", string(events.ContainerEventType)).Add("label", apis.LabelKernelID),
	}
	if !since.IsZero() {
		opt.Since = fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond())
	}
	stands := make(chan struct{})
	var used *connection
	var result client.EventsResult
	end, err := e.stream(ctx, what, func(ctx context.Context, conn *connection) error {
		ctx = context.WithValue(ctx, answered{}, sync.OnceFunc(func() { close(stands) }))
		used, result = conn, conn.Events(ctx, opt)
		select {
		case <-stands:
			return nil
		case err := <-result.Err:
			return err
		}
	})
	if err != nil {
		return err
	}
	defer end()
	ready()
	for {
		select {
		case msg := <-result.Messages:
			if ev, ok := e.hint(msg); ok {
				fn(ev)
			}
		case err := <-result.Err:
			// Mostly it is the engine that went: the next one may be another version.
			e.renew(used)
			if errors.Is(err, io.EOF) && ctx.Err() == nil {
				return nil
			}
			return e.classify(ctx, used, what, err)
		}
	}
}

// hint reads an event; false for those of other agents and those that say nothing.
func (e *Engine) hint(msg events.Message) (runtime.Event, bool) {
	labels := msg.Actor.Attributes
	kernel := labels[apis.LabelKernelID]
	if msg.Type != events.ContainerEventType || kernel == "" || !apis.OwnedBy(labels, e.agentID) {
		return runtime.Event{}, false
	}
	at := time.Unix(0, msg.TimeNano)
	if msg.TimeNano == 0 {
		at = time.Unix(msg.Time, 0)
	}
	return runtime.Event{KernelID: kernel, Action: string(msg.Action), At: at.UTC()}, true
}
