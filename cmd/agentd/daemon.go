// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
	"agentd/pkg/apis/config"
	"agentd/pkg/controller"
	"agentd/pkg/controller/intake"
)

// askTime bounds a question that the daemon answers from memory.
const askTime = 15 * time.Second

// client returns a client of the daemon.
func (g *globals) client() (*admin.Client, error) {
	path, _, err := g.socketPath()
	if err != nil {
		return nil, err
	}
	return admin.NewClient(path), nil
}

// source is where objects come from: the daemon, or its checkpoint while it is down.
type source struct {
	client  *admin.Client
	objects *admin.Objects // nil while the daemon answers
}

// source connects to the daemon. Without one, the durable objects of the
// checkpoint are shown, and that is said on standard error.
func (g *globals) source(ctx context.Context, s streams) (*source, error) {
	path, cfg, err := g.socketPath()
	if err != nil {
		return nil, err
	}
	out := &source{client: admin.NewClient(path)}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	_, err = out.client.Version(ctx)
	if err == nil || cfg == nil || !errors.Is(err, admin.ErrUnreachable) {
		return out, err
	}
	if cpErr := out.openCheckpoint(cfg); cpErr != nil {
		return nil, fmt.Errorf("%w; and its checkpoint cannot be read: %w", err, cpErr)
	}
	_, _ = fmt.Fprintf(s.err, "agentd: no daemon answers at %s; this is what its checkpoint says, not what is running\n", path)
	return out, nil
}

// openCheckpoint loads the durable objects, without keeping the file.
func (c *source) openCheckpoint(cfg *config.Config) error {
	cp, _, err := controller.OpenCheckpoint(checkpointPath(cfg), controller.CheckpointOptions{ReadOnly: true, LockTimeout: checkpointLockWait})
	if err != nil {
		return err
	}
	defer func() { _ = cp.Close() }()
	mem, err := cp.Snapshot()
	if err != nil {
		return err
	}
	store := controller.NewStore(nil)
	tables := controller.NewTables(store)
	if _, err := store.Attach(mem); err != nil {
		return err
	}
	c.objects = admin.NewObjects(tables, intake.NewDeclare(store, tables, controller.NewOutbox(tables)))
	return nil
}

// list returns all objects of a kind as JSON.
func (c *source) list(ctx context.Context, kind apis.Kind) ([]json.RawMessage, error) {
	if c.objects == nil {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		return c.client.List(ctx, kind)
	}
	var out []json.RawMessage
	for _, o := range c.objects.List(kind) {
		b, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// get returns one object as JSON.
func (c *source) get(ctx context.Context, kind apis.Kind, name string) (json.RawMessage, error) {
	if c.objects == nil {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		return c.client.Get(ctx, kind, name)
	}
	o, err := c.objects.Find(kind, name)
	if err != nil {
		return nil, err
	}
	return json.Marshal(o)
}
