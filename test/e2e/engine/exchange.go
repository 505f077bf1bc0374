// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// exchange is one request and its answer on the way to the client.
type exchange struct {
	http.ResponseWriter
	rules  *Rules
	cancel context.CancelFunc
	method string
	path   string

	mu       sync.Mutex
	isCut    bool
	hijacked net.Conn
	// left is how many bytes of the answer may still pass; unlimited when negative.
	left int
}

// serve obeys the rule, if there is one.
func (x *exchange) serve(h *Handle, next http.Handler, req *http.Request) {
	x.left = -1
	defer func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.isCut && x.hijacked == nil {
			panic(http.ErrAbortHandler)
		}
	}()
	if h == nil {
		next.ServeHTTP(x, req)
		return
	}
	rule := h.rule
	if rule.Delay > 0 {
		timer := time.NewTimer(rule.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if rule.Hold {
		// Read the body first: only then does the server notice a client that leaves.
		bodyOf(req)
		select {
		case <-h.release:
		case <-req.Context().Done():
		}
		if req.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
	}
	switch {
	case rule.Reset:
		panic(http.ErrAbortHandler)
	case rule.Status != 0:
		x.Header().Set("Content-Type", "application/json")
		x.WriteHeader(rule.Status)
		_, _ = io.WriteString(x, rule.Body)
		return
	}
	if rule.Header != nil {
		rule.Header(req.Header)
	}
	if rule.Request != nil {
		body := rule.Request(bodyOf(req))
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
		req.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if rule.CutAfter > 0 {
		x.left = rule.CutAfter
	}
	if rule.LoseAnswer || rule.Rewrite != nil {
		x.deferred(rule, next, req)
		return
	}
	next.ServeHTTP(x, req)
	if rule.Blackhole {
		x.Flush()
		select {
		case <-h.release:
		case <-req.Context().Done():
		}
		panic(http.ErrAbortHandler)
	}
}

// deferred lets the engine answer into memory.
func (x *exchange) deferred(rule Rule, next http.Handler, req *http.Request) {
	kept := &keptAnswer{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(kept, req)
	if rule.LoseAnswer {
		panic(http.ErrAbortHandler)
	}
	body := rule.Rewrite(kept.body.Bytes())
	maps.Copy(x.Header(), kept.header)
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(kept.status)
	_, _ = x.Write(body)
}

// bodyOf reads the request's body and puts it back.
func bodyOf(req *http.Request) []byte {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// cut ends the exchange without an end.
func (x *exchange) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.isCut = true
	if x.hijacked != nil {
		_ = x.hijacked.Close()
	}
	x.cancel()
}

// Write passes a part of the answer on, as far as the rules let it.
func (x *exchange) Write(p []byte) (int, error) {
	if x.rules.blackholed(x) {
		return len(p), nil
	}
	if x.left >= 0 && len(p) >= x.left {
		_, _ = x.ResponseWriter.Write(p[:x.left])
		x.Flush()
		panic(http.ErrAbortHandler)
	}
	n, err := x.ResponseWriter.Write(p)
	if x.left >= 0 {
		x.left -= n
	}
	return n, err
}

// Flush sends what was written.
func (x *exchange) Flush() { _ = http.NewResponseController(x.ResponseWriter).Flush() }

// Hijack hands the connection over.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(x.ResponseWriter).Hijack()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.hijacked = conn
	return conn, rw, err
}

// keptAnswer is an answer in memory.
type keptAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *keptAnswer) Header() http.Header         { return k.header }
func (k *keptAnswer) WriteHeader(status int)      { k.status = status }
func (k *keptAnswer) Write(p []byte) (int, error) { return k.body.Write(p) }
