// SPDX-License-Identifier: Apache-2.0

// Package runner is the agent's client of the runner inside a kernel. Everything on the other side belongs to the
// container's user, so it counts as hostile: each step has a deadline, each message a limit, and nothing that the other
// side does is followed outside its directory.
package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"agentd/pkg/apis/record"
)

// Status is what a runner says about itself. Its texts come out of the container: show them, never obey them.
type Status = record.StatusPayload

const (
	// callTimeout bounds a call whose context has no deadline of its own.
	callTimeout = 10 * time.Second
	// maxAnswer bounds the payload of an answer; a status is far smaller.
	maxAnswer = 64 << 10
	// maxStray is how many records nobody asked for are skipped before the other side counts as broken.
	maxStray = 64
)

// ErrProtocol is the class of errors about a peer that does not speak the protocol as agreed.
var ErrProtocol = errors.New("runner breaks the protocol")

// Failure is an answer in which the runner refuses a request.
type Failure struct {
	Code, Message string
}

// Error implements error.
func (f *Failure) Error() string { return fmt.Sprintf("runner refuses: %q (%s)", f.Message, f.Code) }

// Client is a connection to one runner. It is safe for concurrent use; calls wait for each other.
type Client struct {
	// Software is what the runner says it is, in its own words.
	Software string

	conn   net.Conn
	reader *record.Reader
	writer *record.Writer

	mu      sync.Mutex
	request uint64
	broken  error
}

// Dial connects to the runner of the kernel whose /opt/kernel/run is the host directory runDir. The error says
// fs.ErrNotExist while no runner has opened its socket.
func Dial(ctx context.Context, runDir string) (*Client, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	conn, err := connect(ctx, runDir)
	if err != nil {
		return nil, err
	}
	c, err := greet(ctx, conn)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("greet the runner in %s: %w", runDir, err)
	}
	return c, nil
}

// greet introduces us on a fresh connection.
func greet(ctx context.Context, conn net.Conn) (*Client, error) {
	c := &Client{conn: conn, reader: record.NewReader(conn, maxAnswer), writer: record.NewWriter(conn)}
	var hello record.HelloPayload
	if err := c.call(ctx, record.Hello, record.HelloPayload{Protocol: record.Protocol, Software: "agentd"}, &hello); err != nil {
		return nil, err
	}
	if hello.Protocol != record.Protocol {
		return nil, fmt.Errorf("%w: it speaks version %d, we speak %d", ErrProtocol, hello.Protocol, record.Protocol)
	}
	c.Software = hello.Software
	return c, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Status asks the runner how it is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var status Status
	if err := c.call(ctx, record.StatusRequest, nil, &status); err != nil {
		return Status{}, fmt.Errorf("runner status: %w", err)
	}
	return status, nil
}

// bounded gives a context without deadline the usual one.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, callTimeout)
}

// call sends a request and reads its answer into out.
func (c *Client) call(ctx context.Context, t record.Type, in, out any) error {
	return c.exchange(ctx, t, in, func(answer record.Record) (bool, error) {
		return true, answer.Decode(out)
	})
}

// exchange sends a request and passes its answers on until the function says that it has enough. After an error the
// stream is in an unknown place, so the client is of no more use.
func (c *Client) exchange(ctx context.Context, t record.Type, in any, each func(record.Record) (bool, error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return c.broken
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.request++
	request, err := record.New(t, c.request, in)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	err = c.writer.Write(request)
	if err == nil {
		err = c.answers(request, each)
	}
	var refused *Failure
	if err == nil || errors.As(err, &refused) {
		return err
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", ctx.Err(), err)
	}
	c.broken = err
	_ = c.conn.Close()
	return err
}

// answers reads until the function has enough.
func (c *Client) answers(request record.Record, each func(record.Record) (bool, error)) error {
	for stray := 0; ; {
		answer, err := c.reader.Read()
		if err != nil {
			if errors.Is(err, record.ErrMalformed) {
				err = fmt.Errorf("%w: %w", ErrProtocol, err)
			}
			return err
		}
		if answer.Request != request.Request {
			if stray++; stray > maxStray {
				return fmt.Errorf("%w: it keeps sending what nobody asked for", ErrProtocol)
			}
			continue
		}
		switch answer.Type {
		case request.Type:
			enough, err := each(answer)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrProtocol, err)
			}
			if enough {
				return nil
			}
		case record.Failure:
			var f record.FailurePayload
			if err := answer.Decode(&f); err != nil {
				return fmt.Errorf("%w: %w", ErrProtocol, err)
			}
			return &Failure{Code: f.Code, Message: f.Message}
		default:
			return fmt.Errorf("%w: an answer of type %d to a request of type %d", ErrProtocol, answer.Type, request.Type)
		}
	}
}
