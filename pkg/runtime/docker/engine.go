// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"

	"agentd/pkg/runtime"
)

// DefaultHost is the engine's socket when nothing else is said.
const DefaultHost = client.DefaultDockerHost

const (
	defaultCallTimeout = 60 * time.Second
	// pingTimeout bounds the negotiation, which others wait for.
	pingTimeout = 10 * time.Second
	// parallelLooks bounds how many inspections one listing may have open.
	parallelLooks = 4
)

// Options say which engine and for whom.
type Options struct {
	// Host is the engine's address as in DOCKER_HOST: unix:///path or
	// tcp://host:port (then with TLS if DOCKER_CERT_PATH is set). Empty is
	// [DefaultHost].
	Host string
	// AgentID marks what this agent makes; things of others are left alone.
	AgentID string
	// CallTimeout bounds every call that has no natural length; 0 is 60 s.
	CallTimeout time.Duration
	// Overrides are merged onto the body of every container, in order.
	Overrides []Override
}

// Engine is the Docker engine behind the runtime seam.
type Engine struct {
	host      string
	agentID   string
	timeout   time.Duration
	overrides []parsedOverride
	conn      atomic.Pointer[connection]
	names     nameLocks
}

// connection is a client and whether it knows the engine's API version.
type connection struct {
	*client.Client
	negotiated atomic.Bool
}

var (
	_ runtime.Containers = (*Engine)(nil)
	_ runtime.Watcher    = (*Engine)(nil)
	_ runtime.Networks   = networks{}
	_ runtime.Images     = images{}
)

// New prepares the engine without calling it. Wrong addresses and override
// files that are not JSON objects are errors; an engine that is down is not.
func New(opt Options) (*Engine, error) {
	if opt.Host == "" {
		opt.Host = DefaultHost
	}
	if opt.CallTimeout <= 0 {
		opt.CallTimeout = defaultCallTimeout
	}
	if opt.AgentID == "" {
		return nil, fmt.Errorf("engine %s: the agent ID is empty; containers could not be told apart", opt.Host)
	}
	if !strings.HasPrefix(opt.Host, "unix:///") && !strings.HasPrefix(opt.Host, "tcp://") {
		return nil, fmt.Errorf("engine address %q: must be unix:///path or tcp://host:port, as in DOCKER_HOST", opt.Host)
	}
	overrides, err := parseOverrides(opt.Overrides)
	if err != nil {
		return nil, err
	}
	e := &Engine{host: opt.Host, agentID: opt.AgentID, timeout: opt.CallTimeout, overrides: overrides}
	conn, err := e.connect()
	if err != nil {
		return nil, err
	}
	e.conn.Store(conn)
	return e, nil
}

// Networks is the part of the seam that is about networks.
func (e *Engine) Networks() runtime.Networks { return networks{e} }

// Images is the part of the seam that is about images.
func (e *Engine) Images() runtime.Images { return images{e} }

// Host is the engine's address.
func (e *Engine) Host() string { return e.host }

// Close lets go of idle connections. Calls under way are not disturbed.
func (e *Engine) Close() error { return e.conn.Load().Close() }

func (e *Engine) connect() (*connection, error) {
	var opts []client.Opt
	if strings.HasPrefix(e.host, "unix://") {
		// More idle connections than the client's default: a cluster session
		// asks for several containers at once.
		transport := &http.Transport{MaxIdleConns: 16, MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second}
		opts = append(opts, client.WithScheme("http"),
			client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}))
	} else {
		opts = append(opts, client.WithTLSClientConfigFromEnv())
	}
	opts = append(opts, client.WithHost(e.host), client.WithUserAgent("agentd"),
		client.WithHTTPResponseHook(announceAnswer))
	cli, err := client.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("engine address %q: %w", e.host, err)
	}
	return &connection{Client: cli}, nil
}

// ready returns a connection that speaks the engine's API version. Without
// this step a call to an engine that was down before would be made in a
// version that the engine may refuse.
func (e *Engine) ready(ctx context.Context) (*connection, error) {
	conn := e.conn.Load()
	if conn.negotiated.Load() {
		return conn, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := conn.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
	if err == nil {
		conn.negotiated.Store(true)
	}
	return conn, err
}

// renew forgets a connection that failed: whoever answers next may be another
// version of the engine.
func (e *Engine) renew(old *connection) {
	if !old.negotiated.Load() {
		return
	}
	conn, err := e.connect()
	if err != nil || !e.conn.CompareAndSwap(old, conn) {
		return
	}
	_ = old.Close()
}

// call runs one exchange under a deadline. Errors get their class here.
func (e *Engine) call(ctx context.Context, limit time.Duration, what string, fn func(context.Context, *connection) error) error {
	inner, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := e.ready(inner)
	if err == nil {
		err = fn(inner, conn)
	}
	return e.classify(ctx, conn, what, err)
}

// stream opens an answer that lasts. The engine has the call timeout to begin
// it; afterwards only ctx ends it. The caller calls end when it is done with it.
func (e *Engine) stream(ctx context.Context, what string, open func(context.Context, *connection) error) (end func(), err error) {
	inner, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(e.timeout, func() { cancel(context.DeadlineExceeded) })
	conn, err := e.ready(inner)
	if err == nil {
		err = open(inner, conn)
	}
	if !timer.Stop() && err == nil {
		err = context.Cause(inner)
	}
	if err != nil {
		if cause := context.Cause(inner); cause != nil && ctx.Err() == nil {
			err = cause
		}
		cancel(nil)
		return nil, e.classify(ctx, conn, what, err)
	}
	return func() { cancel(nil) }, nil
}
