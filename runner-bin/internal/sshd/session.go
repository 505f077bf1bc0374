// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"agentd/runner-bin/internal/identity"
)

const (
	// maxEnv and maxEnvSize bound the variables that a client may set for one session.
	maxEnv     = 128
	maxEnvSize = 32 << 10
)

// session is one channel in which a program runs.
type session struct {
	connection *connection
	stream     ssh.Channel
	env        []string
	envCount   int
	envSize    int
	terminal   *terminal
	program    *program
}

// terminal is what the client said about its own.
type terminal struct {
	name string
	size unix.Winsize
}

// session serves one session channel until it closes.
func (c *connection) session(channel ssh.NewChannel) {
	stream, requests, err := channel.Accept()
	if err != nil {
		return
	}
	s := &session{connection: c, stream: stream, env: c.baseEnv()}
	for request := range requests {
		ok := s.handle(request)
		c.reply(request, ok, nil)
		if s.program != nil && ok && starts(request.Type) {
			s.program.attach(stream) // after the reply, for clients that count on that order
		}
	}
	if s.program != nil {
		s.program.hangUp()
	}
	_ = stream.Close()
}

func starts(request string) bool {
	return request == "shell" || request == "exec" || request == "subsystem"
}

// baseEnv is the environment of sessions before the client adds to it.
func (c *connection) baseEnv() []string {
	env := append([]string(nil), c.server.config.Env...)
	env = identity.WithVariable(env, "HOME", c.server.config.Home)
	remote, local := endpoint(c.conn.RemoteAddr()), endpoint(c.conn.LocalAddr())
	env = identity.WithVariable(env, "SSH_CONNECTION", remote+" "+local)
	_, port, _ := strings.Cut(local, " ")
	return identity.WithVariable(env, "SSH_CLIENT", remote+" "+port)
}

func endpoint(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "UNKNOWN 0"
	}
	return host + " " + port
}

// handle carries out one request and reports whether it was.
func (s *session) handle(request *ssh.Request) bool {
	switch request.Type {
	case "env":
		return s.setEnv(request.Payload)
	case "pty-req":
		return s.setTerminal(request.Payload)
	case "window-change":
		return s.resize(request.Payload)
	case "signal":
		var p struct{ Name string }
		return ssh.Unmarshal(request.Payload, &p) == nil && s.program != nil && s.program.signal(p.Name)
	case "shell":
		return s.start("")
	case "exec":
		var p struct{ Command string }
		return ssh.Unmarshal(request.Payload, &p) == nil && s.start(p.Command)
	case "subsystem":
		var p struct{ Name string }
		return ssh.Unmarshal(request.Payload, &p) == nil && p.Name == "sftp" && s.startSFTP()
	case "keepalive@openssh.com":
		return true
	}
	return false
}

// setEnv takes a variable from the client. The dynamic linker's are refused: a client's own libraries don't exist here.
func (s *session) setEnv(payload []byte) bool {
	var p struct{ Name, Value string }
	if ssh.Unmarshal(payload, &p) != nil || s.program != nil {
		return false
	}
	if p.Name == "" || strings.HasPrefix(p.Name, "LD_") || strings.ContainsAny(p.Name, "=\x00") || strings.Contains(p.Value, "\x00") {
		return false
	}
	s.envCount++
	s.envSize += len(p.Name) + len(p.Value)
	if s.envCount > maxEnv || s.envSize > maxEnvSize {
		return false
	}
	s.env = identity.WithVariable(s.env, p.Name, p.Value)
	return true
}

func (s *session) setTerminal(payload []byte) bool {
	var p struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if ssh.Unmarshal(payload, &p) != nil || s.program != nil || !s.connection.permits(noTerminal) {
		return false
	}
	s.terminal = &terminal{name: p.Term, size: winsize(p.Columns, p.Rows, p.Width, p.Height)}
	return true
}

func (s *session) resize(payload []byte) bool {
	var p struct{ Columns, Rows, Width, Height uint32 }
	if ssh.Unmarshal(payload, &p) != nil || s.program == nil || s.program.tty == nil {
		return false
	}
	return resizeTerminal(s.program.tty, winsize(p.Columns, p.Rows, p.Width, p.Height)) == nil
}

func winsize(columns, rows, width, height uint32) unix.Winsize {
	clip := func(n uint32) uint16 { return uint16(min(n, 1<<16-1)) }
	return unix.Winsize{Row: clip(rows), Col: clip(columns), Xpixel: clip(width), Ypixel: clip(height)}
}

// start runs a command, or a login shell for none.
func (s *session) start(command string) bool {
	if s.program != nil {
		return false
	}
	config := &s.connection.server.config
	if forced := forcedCommand(s.connection.conn.Permissions); forced != "" {
		s.env = identity.WithVariable(s.env, "SSH_ORIGINAL_COMMAND", command)
		command = forced
	}
	path, argv, problem := commandLine(config, command, pathOf(s.env))
	if problem != "" {
		s.complain(problem, 127)
		return true
	}
	return s.launch(path, argv)
}

func (s *session) startSFTP() bool {
	if s.program != nil {
		return false
	}
	if forcedCommand(s.connection.conn.Permissions) != "" {
		return s.start("sftp")
	}
	s.terminal = nil
	self := s.connection.server.config.Self
	return s.launch(self[0], append(append([]string(nil), self...), "sftp-server"))
}

func (s *session) launch(path string, argv []string) bool {
	config := &s.connection.server.config
	dir := config.Home
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = "/"
	}
	p, err := spawn(path, argv, s.env, dir, s.terminal)
	if err != nil {
		s.complain(fmt.Sprintf("cannot run %s: %v", argv[0], err), 126)
		return true
	}
	s.program = p
	return true
}

// complain ends the session with a message in place of a program.
func (s *session) complain(message string, code int) {
	message = "bai-runner: " + message + "\n"
	if s.terminal != nil {
		message = strings.ReplaceAll(message, "\n", "\r\n")
	}
	s.program = &program{complaint: message, code: code}
}

func pathOf(env []string) string {
	path := ""
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	return path
}
