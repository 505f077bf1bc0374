// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
)

func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// ask sends a raw request and returns status and body.
func ask(t *testing.T, path, request string) (int, string) {
	t.Helper()
	conn := dial(t, path)
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func TestPlainRequests(t *testing.T) {
	d, _, _ := start(t)
	for _, x := range []struct {
		request string
		status  int
		body    string
	}{
		{"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 200, "ok"},
		{"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200, "agentd_"},
		{"GET /v1/nonsense HTTP/1.1\r\nHost: a\r\n\r\n", 404, "known are nodes"},
		{"GET /nonsense HTTP/1.1\r\nHost: a\r\n\r\n", 404, ""},
		{"PUT /v1/kernels/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 405, ""},
		{"POST /v1/exec/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", 400, "Upgrade"},
		{"GET /v1/logs/x?tail=-4 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "number of lines"},
		{"POST /v1/sessions?timeout=never HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 400, "5m"},
		{"POST /v1/sessions HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 400, "no session"},
		{"GET /v1/kernels HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431, ""},
	} {
		status, body := ask(t, d.Socket, x.request)
		if status != x.status || !strings.Contains(body, x.body) {
			t.Errorf("%.60q: %d %.200q, want %d %q", x.request, status, body, x.status, x.body)
		}
	}
}

// TestSlowAndDeadClients keeps many clients hanging at every point of a
// request, and makes sure that others are still answered.
func TestSlowAndDeadClients(t *testing.T) {
	d, c, ctx := start(t)
	apply(t, ctx, c, single)
	for i := range 40 {
		for _, begin := range []string{
			"", "GET /v1/ker", "GET /v1/kernels HTTP/1.1\r\nHost: a\r\n",
			fmt.Sprintf("POST /v1/sessions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\napiVersion", 100+i),
			"GET /v1/events?follow=true HTTP/1.1\r\nHost: a\r\n\r\n",
		} {
			conn := dial(t, d.Socket)
			if _, err := io.WriteString(conn, begin); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				_ = conn.Close() // gone in the middle
			}
		}
	}
	if _, err := c.List(ctx, apis.KindKernel); err != nil {
		t.Error(err)
	}
	if err := c.DeleteSession(ctx, "one", wait, func(admin.Progress) error { return nil }); err != nil {
		t.Error(err)
	}
}

// TestTooManyConnections makes sure that those beyond the limit are turned away at
// once, and that there is room again when the others have gone.
func TestTooManyConnections(t *testing.T) {
	d, c, ctx := start(t)
	var open []net.Conn
	for range 300 {
		open = append(open, dial(t, d.Socket))
	}
	// The last one is beyond the limit: it gets an end instead of an answer.
	if _, err := open[len(open)-1].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection beyond the limit: %v, want EOF", err)
	}
	for _, conn := range open {
		_ = conn.Close()
	}
	for { // the daemon notices within moments
		if _, err := c.Version(ctx); err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("no answer after the other connections were closed")
		}
	}
}

func TestTooManyStreams(t *testing.T) {
	d, c, ctx := start(t)
	for range 192 {
		conn := dial(t, d.Socket)
		if _, err := io.WriteString(conn, "GET /v1/events?watch=true HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	err := c.Watch(ctx, apis.KindKernel, func(admin.Change) error { return nil })
	if !errors.Is(err, apis.ErrUnavailable) {
		t.Errorf("one stream too many: %v, want ErrUnavailable", err)
	}
	if _, err := c.List(ctx, apis.KindKernel); err != nil {
		t.Errorf("a short question while all streams are taken: %v", err)
	}
}

// TestExecGarbage sends frames that are none.
func TestExecGarbage(t *testing.T) {
	d, c, ctx := start(t)
	apply(t, ctx, c, single)
	body := `{"cmd":["sleep"],"stdin":true}`
	for _, garbage := range []string{"\x01\xff\xff\xff\xff", "\x09\x00\x00\x00\x01x", "\x03\x00\x00\x00\x01x", "\x01\x00\x00\x00\x09x", ""} {
		conn := dial(t, d.Socket)
		_, err := fmt.Fprintf(conn, "POST /v1/exec/one HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: agentd-exec/1\r\nContent-Length: %d\r\n\r\n%s%s", len(body), body, garbage)
		if err != nil {
			t.Fatal(err)
		}
		u, _ := conn.(*net.UnixConn)
		if err := u.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(conn) // the command ends with the client, and so does the connection
		if err != nil || !strings.HasPrefix(string(b), "HTTP/1.1 101") {
			t.Errorf("%q: %.60q, %v", garbage, b, err)
		}
	}
}

// TestEndsInTime makes sure that streams do not hold up the daemon's end.
func TestEndsInTime(t *testing.T) {
	d, c, ctx := start(t)
	apply(t, ctx, c, single)
	began := make(chan struct{})
	streams := make(chan error, 2)
	go func() {
		streams <- c.Watch(ctx, apis.KindKernel, func(x admin.Change) error {
			if x.Type == admin.ChangeListed {
				close(began)
			}
			return nil
		})
	}()
	r, err := c.Logs(ctx, "one", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, err := io.Copy(io.Discard, r); streams <- err }()
	<-began
	begin := time.Now()
	if err := d.Stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	for range 2 {
		<-streams
	}
	if _, err := c.Version(context.WithoutCancel(ctx)); !errors.Is(err, admin.ErrUnreachable) {
		t.Errorf("after the end: %v, want ErrUnreachable", err)
	} else {
		contains(t, err.Error(), "no such file; is \"agentd run\" running? --socket names another")
	}
}
