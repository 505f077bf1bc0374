// SPDX-License-Identifier: Apache-2.0

// Package sshd serves SSH inside a kernel, as the session's user and for that user only: shells, commands, terminals,
// file transfer and forwarding. It accepts keys, never passwords.
package sshd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"agentd/runner-bin/internal/say"
)

const (
	// maxConns bounds the connections, maxGreeting those of them that have not logged in yet.
	maxConns    = 512
	maxGreeting = 128
	// handshakeTime is how long a client may take to log in.
	handshakeTime = 20 * time.Second
	// maxAuthTries is generous: clients offer every key of their agent first.
	maxAuthTries = 20
	// maxChannels bounds the channels of one connection.
	maxChannels = 128
	// keepAlive finds dead peers by TCP's own means, which costs nothing while nothing happens.
	keepAlive = 15 * time.Second
)

// Config says whom to serve and how. All of it is read only.
type Config struct {
	HostKey ssh.Signer
	Version string
	// Users are the names that may log in; all of them mean the user we run as.
	Users []string
	// UserKeys is the user's authorized_keys, ClusterKeys the public key of the session's cluster.
	UserKeys, ClusterKeys string
	// Env is the environment of sessions, Home their directory.
	Env  []string
	Home string
	// Shell runs sessions' commands; empty when the image has none.
	Shell string
	// Self runs this binary: its path, and arguments that come before the name of a command.
	Self []string
	Log  *say.Printer
}

// Server accepts connections until it is closed.
type Server struct {
	config   Config
	ssh      *ssh.ServerConfig
	listener net.Listener

	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	greeting int
	closed   bool
	wg       sync.WaitGroup
}

// Listen opens the address and serves it.
func Listen(address string, config Config) (*Server, error) {
	lc := net.ListenConfig{KeepAlive: keepAlive}
	listener, err := lc.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("sshd: %w", err)
	}
	s := &Server{config: config, listener: listener, conns: map[net.Conn]struct{}{}}
	s.ssh = &ssh.ServerConfig{
		ServerVersion:     "SSH-2.0-bai-runner_" + cleanVersion(config.Version),
		MaxAuthTries:      maxAuthTries,
		PublicKeyCallback: s.authorize,
	}
	s.ssh.AddHostKey(config.HostKey)
	s.wg.Add(1)
	go s.accept()
	return s, nil
}

// cleanVersion keeps what the identification line of the protocol may carry.
func cleanVersion(version string) string {
	clean := []byte(version)
	for i, c := range clean {
		if c <= ' ' || c > '~' || c == '-' {
			clean[i] = '.'
		}
	}
	return string(clean)
}

// Addr is the address that is served.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the server and every connection; the programs of sessions get SIGHUP. It waits until all is over.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) accept() {
	defer s.wg.Done()
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, most likely; a shorter pause would only burn the processor.
			<-time.After(100 * time.Millisecond)
			continue
		}
		if !s.admit(conn) {
			_ = conn.Close()
			continue
		}
		go s.serve(conn)
	}
}

func (s *Server) admit(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.conns) >= maxConns || s.greeting >= maxGreeting {
		return false
	}
	s.conns[conn] = struct{}{}
	s.greeting++
	s.wg.Add(1)
	return true
}

// greeted counts a connection that has logged in, or failed to.
func (s *Server) greeted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeting--
}

func (s *Server) forget(conn net.Conn, served bool) {
	s.mu.Lock()
	delete(s.conns, conn)
	idle := len(s.conns) == 0
	s.mu.Unlock()
	if idle && served {
		debug.FreeOSMemory() // the next login may be hours away
	}
}

func (s *Server) serve(raw net.Conn) {
	defer s.wg.Done()
	served := false
	defer func() { s.forget(raw, served) }()
	defer raw.Close()
	defer func() {
		// The kernel lives in this process: one broken connection must not end it.
		if p := recover(); p != nil {
			s.config.Log.Linef("sshd: connection of %s broke: %v", raw.RemoteAddr(), p)
		}
	}()
	_ = raw.SetDeadline(time.Now().Add(handshakeTime))
	conn, channels, requests, err := ssh.NewServerConn(raw, s.ssh)
	s.greeted()
	if err != nil {
		return // port scanners and readiness probes are no news
	}
	_ = raw.SetDeadline(time.Time{})
	served = true

	c := &connection{server: s, conn: conn, forwards: map[string]net.Listener{}}
	c.wg.Go(func() {
		c.globalRequests(requests)
	})
	ctx, cancel := context.WithCancel(context.Background())
	for channel := range channels {
		c.open(ctx, channel)
	}
	cancel()
	c.stopForwards()
	_ = conn.Close()
	c.wg.Wait()
}

// connection is one logged-in client.
type connection struct {
	server   *Server
	conn     *ssh.ServerConn
	wg       sync.WaitGroup
	mu       sync.Mutex
	channels int
	forwards map[string]net.Listener
}

// open serves a new channel; the context ends with the connection.
func (c *connection) open(ctx context.Context, channel ssh.NewChannel) {
	c.mu.Lock()
	full := c.channels >= maxChannels
	if !full {
		c.channels++
	}
	c.mu.Unlock()
	if full {
		_ = channel.Reject(ssh.ResourceShortage, "too many channels")
		return
	}
	c.wg.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				c.server.config.Log.Linef("sshd: a channel of %s broke: %v", c.conn.RemoteAddr(), p)
				_ = c.conn.Close()
			}
			c.mu.Lock()
			c.channels--
			c.mu.Unlock()
		}()
		switch channel.ChannelType() {
		case "session":
			c.session(channel)
		case "direct-tcpip":
			c.directTCP(ctx, channel)
		default:
			_ = channel.Reject(ssh.UnknownChannelType, "unsupported channel type")
		}
	})
}

// permits reports whether the key that logged in allows something; the user may have restricted it.
func (c *connection) permits(what string) bool {
	return !slices.Contains(restrictions(c.conn.Permissions), what)
}
