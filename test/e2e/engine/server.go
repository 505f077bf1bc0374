// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Server is a socket with rules in front of an engine.
type Server struct {
	Rules
	t      testing.TB
	socket string
	engine http.Handler

	mu      sync.Mutex
	running *http.Server
	done    chan struct{}
}

// start listens on a socket in a directory of its own: the test's directory
// may have too long a name for a socket.
func (s *Server) start(t testing.TB, engine http.Handler) {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	s.t, s.engine, s.socket = t, engine, filepath.Join(dir, "docker.sock")
	t.Cleanup(func() {
		s.Down()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.Up()
}

// Socket is the path to connect to.
func (s *Server) Socket() string { return s.socket }

// Host is the socket as DOCKER_HOST names it.
func (s *Server) Host() string { return "unix://" + s.socket }

// Up begins to listen, if it does not already.
func (s *Server) Up() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return
	}
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		s.t.Fatal(err)
	}
	// A cut exchange is no error of the server: it keeps quiet about it.
	srv := &http.Server{Handler: s.wrap(s.engine), ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	s.running, s.done = srv, done
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.t.Error(err)
		}
	}()
}

// Down closes the socket and cuts every exchange, as an engine that is killed.
func (s *Server) Down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		return
	}
	_ = s.running.Close()
	s.Cut("")
	<-s.done
	s.wait()
	s.running = nil
}
