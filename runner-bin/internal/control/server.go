// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"agentd/pkg/apis/record"
)

const (
	// maxConns bounds the connections; the oldest goes when one more comes, so that nobody can lock the agent out.
	maxConns = 16
	// maxRequest bounds the payload of a request.
	maxRequest = 64 << 10
	// maxWatches bounds the watches of one connection.
	maxWatches = 4
	// patience is how long a peer may take for its hello, and for reading what we send.
	patience = 10 * time.Second
)

// Server answers the agent on a unix socket.
type Server struct {
	board    *Board
	software string
	listener *net.UnixListener
	path     string

	mu    sync.Mutex
	conns []net.Conn
	done  chan struct{}
	wg    sync.WaitGroup
}

// Listen opens the socket and serves it until Close. A socket that an earlier start left behind is replaced; the new
// one appears under its name only when it can be connected to.
func Listen(path, software string, board *Board) (*Server, error) {
	temp := path + ".new"
	_ = os.Remove(temp)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the agent: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(temp, 0o600), os.Rename(temp, path)); err != nil {
		_ = listener.Close()
		_ = os.Remove(temp)
		return nil, fmt.Errorf("listen for the agent: %w", err)
	}
	s := &Server{board: board, software: software, listener: listener, path: path, done: make(chan struct{})}
	s.wg.Add(1)
	go s.accept()
	return s, nil
}

// Close removes the socket, ends all connections and waits for what served them.
func (s *Server) Close() {
	close(s.done)
	_ = os.Remove(s.path)
	_ = s.listener.Close()
	s.mu.Lock()
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) accept() {
	defer s.wg.Done()
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			select {
			case <-s.done:
				return
			case <-time.After(100 * time.Millisecond): // out of descriptors, most likely
				continue
			}
		}
		s.mu.Lock()
		select {
		case <-s.done:
			s.mu.Unlock()
			_ = conn.Close()
			return
		default:
		}
		if len(s.conns) >= maxConns {
			_ = s.conns[0].Close()
			s.conns = s.conns[1:]
		}
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
		s.wg.Go(func() {
			s.serve(conn)
			s.forget(conn)
		})
	}
}

func (s *Server) forget(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.conns {
		if c == conn {
			s.conns = append(s.conns[:i:i], s.conns[i+1:]...)
			return
		}
	}
}

// session is one connection.
type session struct {
	server *Server
	conn   net.Conn
	mu     sync.Mutex // guards writer
	writer *record.Writer
	gone   chan struct{}
	wg     sync.WaitGroup
}

func (s *Server) serve(conn net.Conn) {
	c := &session{server: s, conn: conn, writer: record.NewWriter(conn), gone: make(chan struct{})}
	defer c.wg.Wait()
	defer close(c.gone)
	defer conn.Close()

	reader := record.NewReader(conn, maxRequest)
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	first, err := reader.Read()
	if err != nil || first.Type != record.Hello {
		return
	}
	var hello record.HelloPayload
	if first.Decode(&hello) != nil {
		return
	}
	if hello.Protocol != record.Protocol {
		_ = c.fail(first, record.CodeUnknownProtocol, fmt.Sprintf("this runner speaks protocol %d", record.Protocol))
		return
	}
	if c.answer(first, record.HelloPayload{Protocol: record.Protocol, Software: s.software}) != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{}) // an agent may stay silent for as long as it likes

	watches := 0
	for {
		request, err := reader.Read()
		if err != nil {
			return
		}
		switch request.Type {
		case record.StatusRequest:
			status, _ := s.board.Read()
			err = c.answer(request, status)
		case record.WatchRequest:
			if watches++; watches > maxWatches {
				return
			}
			c.wg.Add(1)
			go c.watch(request)
		default:
			err = c.fail(request, record.CodeUnknownRequest, fmt.Sprintf("unknown request of type %d", request.Type))
		}
		if err != nil {
			return
		}
	}
}

// watch sends the status now and after every change. Changes that come faster than the peer reads are merged.
func (c *session) watch(request record.Record) {
	defer c.wg.Done()
	for {
		status, changed := c.server.board.Read()
		if c.answer(request, status) != nil {
			_ = c.conn.Close()
			return
		}
		select {
		case <-changed:
		case <-c.gone:
			return
		}
	}
}

func (c *session) answer(request record.Record, value any) error {
	return c.send(request.Type, request.Request, value)
}

func (c *session) fail(request record.Record, code, message string) error {
	return c.send(record.Failure, request.Request, record.FailurePayload{Code: code, Message: message})
}

func (c *session) send(t record.Type, request uint64, value any) error {
	r, err := record.New(t, request, value)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(patience))
	return c.writer.Write(r)
}
