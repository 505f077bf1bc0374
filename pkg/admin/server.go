// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"agentd/pkg/apis"
	"agentd/pkg/controller/intake"
	"agentd/pkg/reconciler"
	"agentd/pkg/runtime"
)

const (
	// headerTime is how long a client may take to send its request line and headers.
	headerTime = 5 * time.Second
	// bodyTime is how long it may take to send the rest, and to take in an answer that is no stream.
	bodyTime = 30 * time.Second
	// idleTime is how long a connection may stay open between two requests.
	idleTime = time.Minute
	// stallTime is how long a stream waits for a client that does not read, such as a pager.
	stallTime = 10 * time.Minute
	// closeTime is how long requests under way may take after the end was decided.
	closeTime = 2 * time.Second
	// maxConns and maxStreams bound what clients can hold; the difference keeps room for short requests.
	maxConns   = 256
	maxStreams = 192
)

// Deps are what a [Server] is made from.
type Deps struct {
	Set     *reconciler.Set
	Declare *intake.Declare
	Node    runtime.Node
	// Exec runs commands in containers; nil: there is no such door.
	Exec runtime.Execer
	// Registry is what /metrics shows; nil: nothing.
	Registry prometheus.Gatherer
	// Check says whether the node can run a session at all, before anything is
	// stored; nil: it can.
	Check   func(intake.Session) error
	Version string
	Log     logr.Logger
}

// Server answers operators.
type Server struct {
	deps    Deps
	objects *Objects
	mux     *http.ServeMux
	since   time.Time
	streams chan struct{}
}

// NewServer returns a server; it listens when Serve is called.
func NewServer(d Deps) *Server {
	s := &Server{
		deps: d, objects: NewObjects(d.Set.Tables, d.Declare), mux: http.NewServeMux(),
		since: time.Now().UTC(), streams: make(chan struct{}, maxStreams),
	}
	s.handle("GET /healthz", s.health)
	s.handle("GET /version", s.version)
	if d.Registry != nil {
		s.mux.Handle("GET /metrics", promhttp.HandlerFor(d.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: bodyTime}))
	}
	s.handle("GET /v1/{kind}", s.list)
	s.handle("GET /v1/{kind}/{name...}", s.get)
	s.handle("GET /v1/logs/{ref...}", s.stream(s.logs))
	s.handle("POST /v1/exec/{ref...}", s.stream(s.exec))
	s.handle("POST /v1/sessions", s.stream(s.createSessions))
	s.handle("DELETE /v1/sessions", s.stream(s.deleteSessions))
	s.handle("DELETE /v1/kernels/{ref...}", s.stream(s.deleteKernel))
	return s
}

// handlerFunc is a handler whose error is answered, as long as nothing else was.
type handlerFunc func(w http.ResponseWriter, r *http.Request) error

func (s *Server) handle(pattern string, h handlerFunc) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// stream lets a handler take longer than bodyTime, as long as there are not too many.
func (s *Server) stream(h handlerFunc) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		select {
		case s.streams <- struct{}{}:
			defer func() { <-s.streams }()
		default:
			return fmt.Errorf("%w: %d commands already follow something here; end some of them", apis.ErrUnavailable, maxStreams)
		}
		return h(w, r)
	}
}

// connKey is where the peer check of a connection is kept.
type connKey struct{}

// Serve answers until ctx ends, then closes the socket and all streams. It
// returns nil after such an end.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           http.HandlerFunc(s.ServeHTTP),
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(c context.Context, conn net.Conn) context.Context {
			if l, ok := conn.(*limitedConn); ok {
				conn = l.Conn
			}
			return context.WithValue(c, connKey{}, peer{checkPeer(conn)})
		},
	}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		err := srv.Shutdown(late)
		if err != nil {
			err = srv.Close() // clients that do not let go are cut off
		}
		ended <- err
	})
	err := srv.Serve(limit(ln, maxConns))
	if stop() { // ctx has not ended: the listener broke
		_ = srv.Close()
		return fmt.Errorf("admin socket: %w", err)
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("closing the admin socket: %w", err)
	}
	return nil
}

type peer struct{ refused error }

// ServeHTTP checks the peer and the request's size, then hands it on.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p, ok := r.Context().Value(connKey{}).(peer); ok && p.refused != nil {
		s.deps.Log.Info("refused a client of the admin socket", "why", p.refused.Error())
		w.Header().Set("Connection", "close")
		writeJSON(w, http.StatusForbidden, failure{Error: p.refused.Error()})
		return
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(bodyTime))
	_ = c.SetWriteDeadline(time.Now().Add(bodyTime))
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.mux.ServeHTTP(w, r)
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errSent) || r.Context().Err() != nil {
		return
	}
	status, f := encodeFailure(err)
	if status >= http.StatusInternalServerError {
		s.deps.Log.Error(err, "admin request failed", "method", r.Method, "path", r.URL.Path)
	}
	writeJSON(w, status, f)
}

// errSent marks errors after which nothing can be said to the client any more.
var errSent = errors.New("the answer was under way already")

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) //nolint:errchkjson // the client is gone, or never was
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	if err := s.deps.Set.Store.Err(); err != nil {
		return fmt.Errorf("%w: %w", apis.ErrUnavailable, err)
	}
	_, _ = io.WriteString(w, "ok\n")
	return nil
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) error {
	v := VersionInfo{Version: s.deps.Version, PID: os.Getpid(), Since: s.since}
	if names := s.objects.Names(apis.KindNode); len(names) > 0 {
		v.AgentID = names[0]
	}
	writeJSON(w, http.StatusOK, v)
	return nil
}

// limit bounds the connections that are open at a time. One too many is closed
// at once: waiting would lock out the operator who comes to look.
func limit(ln net.Listener, n int) net.Listener {
	return &limitedListener{Listener: ln, slots: make(chan struct{}, n)}
}

type limitedListener struct {
	net.Listener
	slots chan struct{}
}

// Accept returns the next connection that there is room for.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &limitedConn{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			_ = c.Close()
		}
	}
}

type limitedConn struct {
	net.Conn
	free func()
}

// Close makes room for another connection.
func (c *limitedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}
