// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentd/pkg/apis"
)

// dialTime is how long a daemon may take to accept.
const dialTime = 5 * time.Second

// ErrUnreachable says that no daemon answers on the socket.
var ErrUnreachable = errors.New("cannot reach agentd")

// Client talks to a [Server]. It is safe for concurrent use.
type Client struct {
	path string
	http *http.Client
}

// NewClient returns a client of the daemon on that socket. It connects when it is used.
func NewClient(path string) *Client {
	d := net.Dialer{Timeout: dialTime}
	return &Client{path: path, http: &http.Client{Transport: &http.Transport{
		DialContext:  func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) },
		MaxIdleConns: 2, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}}
}

// Close closes connections that are kept for later use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// do sends a request and returns the answer if it is a success. The caller closes the body.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, body []byte, header http.Header) (*http.Response, error) {
	u := "http://agentd" + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	var from io.Reader
	if body != nil {
		from = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, u, from)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of agentd: %w", err)
	}
	var f failure
	if json.Unmarshal(text, &f) != nil || f.Error == "" {
		f.Error = fmt.Sprintf("agentd answered %s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	return nil, decodeFailure(resp.StatusCode, f)
}

// unreachable says why nobody answered, and what to do.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	why, way := "", "is \"agentd run\" running? --socket names another"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = "no such file"
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "nobody listens on it"
	case errors.Is(err, fs.ErrPermission):
		why, way = "permission denied", "only root and the user of the daemon may use it"
	default:
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		why = err.Error()
	}
	return fmt.Errorf("%w at %s: %s; %s", ErrUnreachable, c.path, why, way)
}

func (c *Client) getJSON(ctx context.Context, path string, into any) error {
	resp, err := c.do(ctx, http.MethodGet, path, nil, nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("reading the answer of agentd: %w", err)
	}
	return nil
}

// Version asks the daemon who it is.
func (c *Client) Version(ctx context.Context) (VersionInfo, error) {
	var v VersionInfo
	return v, c.getJSON(ctx, "/version", &v)
}

// List returns all objects of a kind as JSON, by name.
func (c *Client) List(ctx context.Context, kind apis.Kind) ([]json.RawMessage, error) {
	var out []json.RawMessage
	return out, c.getJSON(ctx, "/v1/"+string(kind), &out)
}

// Get returns one object as JSON. The name may be any that people use; see the
// daemon's own rules.
func (c *Client) Get(ctx context.Context, kind apis.Kind, name string) (json.RawMessage, error) {
	var out json.RawMessage
	return out, c.getJSON(ctx, "/v1/"+string(kind)+"/"+url.PathEscape(name), &out)
}

// Watch calls fn for every object of a kind and then for every change, until
// ctx ends, the daemon does, or fn returns an error.
func (c *Client) Watch(ctx context.Context, kind apis.Kind, fn func(Change) error) error {
	resp, err := c.do(ctx, http.MethodGet, "/v1/"+string(kind), url.Values{"watch": {"true"}}, nil, nil)
	if err != nil {
		return err
	}
	return eachLine(ctx, resp.Body, fn)
}

// WaitOptions say whether and how long the daemon waits before it answers.
type WaitOptions struct {
	Wait    bool
	Timeout time.Duration
}

func (o WaitOptions) query() url.Values {
	q := url.Values{"wait": {strconv.FormatBool(o.Wait)}}
	if o.Timeout > 0 {
		q.Set("timeout", o.Timeout.String())
	}
	return q
}

// Apply hands a session file in. fn is called with each line of progress; the
// last one says how it went. file names the file in errors.
func (c *Client) Apply(ctx context.Context, file string, data []byte, o WaitOptions, fn func(Progress) error) error {
	q := o.query()
	q.Set("file", file)
	return c.progress(ctx, http.MethodPost, "/v1/sessions", q, data, fn)
}

// DeleteFile ends the sessions of a session file.
func (c *Client) DeleteFile(ctx context.Context, file string, data []byte, o WaitOptions, fn func(Progress) error) error {
	q := o.query()
	q.Set("file", file)
	return c.progress(ctx, http.MethodDelete, "/v1/sessions", q, data, fn)
}

// DeleteSession ends a session.
func (c *Client) DeleteSession(ctx context.Context, ref string, o WaitOptions, fn func(Progress) error) error {
	q := o.query()
	q.Set("name", ref)
	return c.progress(ctx, http.MethodDelete, "/v1/sessions", q, nil, fn)
}

// DeleteKernel ends one kernel.
func (c *Client) DeleteKernel(ctx context.Context, ref string, o WaitOptions, fn func(Progress) error) error {
	return c.progress(ctx, http.MethodDelete, "/v1/kernels/"+url.PathEscape(ref), o.query(), nil, fn)
}

// progress reads progress up to its last line; a stream that ends before is an error.
func (c *Client) progress(ctx context.Context, method, path string, q url.Values, body []byte, fn func(Progress) error) error {
	resp, err := c.do(ctx, method, path, q, body, nil)
	if err != nil {
		return err
	}
	complete := false
	err = eachLine(ctx, resp.Body, func(p Progress) error {
		complete = p.Type == ProgressResult
		return fn(p)
	})
	if err == nil && !complete {
		err = fmt.Errorf("%w any more: it ended before it said how things went; \"agentd get kernels\" tells", ErrUnreachable)
	}
	return err
}

// eachLine decodes JSON lines until the stream ends, and closes it.
func eachLine[T any](ctx context.Context, body io.ReadCloser, fn func(T) error) error {
	defer func() { _ = body.Close() }()
	in := bufio.NewReader(body)
	for {
		line, err := in.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("reading the answer of agentd: %w", err)
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return fmt.Errorf("reading the answer of agentd: %w", err)
		}
		if err := fn(v); err != nil {
			return err
		}
	}
}

// Logs streams the log of a kernel; a tail of 0 is all of it. The caller closes it.
func (c *Client) Logs(ctx context.Context, ref string, follow bool, tail int) (io.ReadCloser, error) {
	q := url.Values{"follow": {strconv.FormatBool(follow)}}
	if tail > 0 {
		q.Set("tail", strconv.Itoa(tail))
	}
	resp, err := c.do(ctx, http.MethodGet, "/v1/logs/"+url.PathEscape(ref), q, nil, nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
