// SPDX-License-Identifier: Apache-2.0

package sshclient

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/term"

	"agentd/runner-bin/internal/say"
)

// failed is the exit code of everything that is not the remote command's.
const failed = 255

// Streams are the command's own.
type Streams struct {
	Stdin          *os.File
	Stdout, Stderr io.Writer
	// Environ is the environment from which variables are sent.
	Environ []string
}

// Main is the ssh command of the process.
func Main(args []string) int {
	c := New(say.To(os.Stderr, "ssh: "))
	return c.Run(args, Streams{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ()})
}

// Run carries out an ssh command line and returns the exit code: the remote command's, or 255 after an error.
func (c *Client) Run(args []string, streams Streams) int {
	line, err := parseCommandLine(args)
	if err != nil {
		if errors.Is(err, errUsage) {
			say.To(streams.Stderr, "").Linef("%v", err)
		} else {
			c.Log.Linef("%v", err)
		}
		return failed
	}
	if line.ShowVersion {
		say.To(streams.Stderr, "").Linef("bai-runner ssh client (OpenSSH command line)")
		return 0
	}
	t, err := c.resolve(line.Options)
	if err != nil {
		c.Log.Linef("%v", err)
		return failed
	}
	client, err := c.connect(line.Options, t)
	if err != nil {
		c.Log.Linef("%v", err)
		return failed
	}
	defer client.Close()
	if line.NoCommand {
		if err := client.Wait(); err != nil {
			c.Log.Linef("connection to %s closed", t.alias)
		}
		return failed
	}
	code, err := c.command(client, &line, t, streams)
	if err != nil {
		c.Log.Linef("%v", err)
	}
	return code
}

// command runs the command of the line, or a login shell.
func (c *Client) command(client *ssh.Client, line *commandLine, t *target, streams Streams) (int, error) {
	session, err := client.NewSession()
	if err != nil {
		return failed, fmt.Errorf("open a session on %s: %w", t.alias, err)
	}
	defer session.Close()
	session.Stdout, session.Stderr = streams.Stdout, streams.Stderr
	// Not session.Stdin: Wait would wait for input that nobody types any more.
	stdin, err := session.StdinPipe()
	if err != nil {
		return failed, err
	}
	sendEnv(session, t, streams.Environ)

	command := line.Command
	if command == "" && !line.Subsystem {
		command = t.get("RemoteCommand")
		if strings.EqualFold(command, "none") {
			command = ""
		}
	}
	if wantsTerminal(line, t, command, streams.Stdin) {
		restore, err := openTerminal(session, streams.Stdin)
		if err != nil {
			return failed, fmt.Errorf("terminal on %s: %w", t.alias, err)
		}
		defer restore()
	}
	switch {
	case line.Subsystem:
		err = session.RequestSubsystem(command)
	case command != "":
		err = session.Start(command)
	default:
		err = session.Shell()
	}
	if err != nil {
		return failed, fmt.Errorf("start on %s: %w", t.alias, err)
	}
	if line.NoInput || streams.Stdin == nil {
		_ = stdin.Close()
	} else {
		go func() {
			_, _ = io.Copy(stdin, streams.Stdin)
			_ = stdin.Close()
		}()
	}
	return exitCode(session.Wait(), t.alias)
}

// exitCode turns the end of a session into an exit code. A command killed by a signal counts as an error, as with
// OpenSSH.
func exitCode(err error, host string) (int, error) {
	var exit *ssh.ExitError
	var missing *ssh.ExitMissingError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Signal() != "":
		return failed, fmt.Errorf("the command on %s was ended by signal %s", host, exit.Signal())
	case errors.As(err, &exit):
		return exit.ExitStatus(), nil
	case errors.As(err, &missing):
		return failed, fmt.Errorf("connection to %s closed by remote host", host)
	}
	return failed, fmt.Errorf("connection to %s: %w", host, err)
}

// sendEnv passes variables on as configured. Hosts may refuse them, which is no error.
func sendEnv(session *ssh.Session, t *target, environ []string) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		for _, pattern := range t.sendEnv {
			if Wildcard(pattern, name) {
				_ = session.Setenv(name, value)
				break
			}
		}
	}
	for _, entry := range t.setEnv {
		if name, value, ok := strings.Cut(entry, "="); ok {
			_ = session.Setenv(name, strings.Trim(value, `"`))
		}
	}
}

// wantsTerminal decides about a terminal on the other side as OpenSSH does.
func wantsTerminal(line *commandLine, t *target, command string, stdin *os.File) bool {
	if line.NoTerminal || line.Subsystem {
		return false
	}
	local := stdin != nil && !line.NoInput && term.IsTerminal(int(stdin.Fd()))
	switch {
	case line.Terminal > 1 || t.is("RequestTTY", "force"):
		return true
	case line.Terminal == 1 || t.is("RequestTTY", "yes"):
		return local
	case t.is("RequestTTY", "no"):
		return false
	}
	return local && command == ""
}

// openTerminal asks for a terminal like ours and hands ours over to it. The function returned undoes the latter.
func openTerminal(session *ssh.Session, stdin *os.File) (restore func(), err error) {
	name := os.Getenv("TERM")
	if name == "" {
		name = "xterm"
	}
	columns, rows := 80, 24
	fd := -1
	if stdin != nil && term.IsTerminal(int(stdin.Fd())) {
		fd = int(stdin.Fd())
		if w, h, err := term.GetSize(fd); err == nil && w > 0 && h > 0 {
			columns, rows = w, h
		}
	}
	if err := session.RequestPty(name, rows, columns, ssh.TerminalModes{}); err != nil {
		return nil, err
	}
	if fd < 0 {
		return func() {}, nil
	}
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	go func() {
		for range resized {
			if w, h, err := term.GetSize(fd); err == nil {
				_ = session.WindowChange(h, w)
			}
		}
	}()
	return func() {
		signal.Stop(resized)
		close(resized)
		_ = term.Restore(fd, state)
	}, nil
}
