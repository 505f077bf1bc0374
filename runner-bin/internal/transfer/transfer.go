// SPDX-License-Identifier: Apache-2.0

// Package transfer copies files between hosts: the scp and sftp commands, and the server sides of both.
package transfer

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"agentd/runner-bin/internal/say"
	"agentd/runner-bin/internal/sshclient"
)

// Streams are a command's own.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

func processStreams() Streams {
	return Streams{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
}

// stdio is a server's connection over standard input and output.
type stdio struct {
	io.Reader
	io.Writer
}

// Close ends nothing: the process ends with its streams.
func (stdio) Close() error { return nil }

// SFTPServer serves one SFTP client on standard input and output.
func SFTPServer(in io.Reader, out, errs io.Writer) int {
	server, err := sftp.NewServer(stdio{in, out})
	if err == nil {
		err = server.Serve()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		say.To(errs, "sftp-server: ").Linef("%v", err)
		return 1
	}
	return 0
}

// peer is a connection for file transfer.
type peer struct {
	ssh  *ssh.Client
	sftp *sftp.Client
}

// connect opens the file transfer subsystem of a host.
func connect(client *sshclient.Client, options sshclient.Options) (*peer, error) {
	conn, err := client.Connect(options)
	if err != nil {
		return nil, err
	}
	files, err := sftp.NewClient(conn, sftp.UseConcurrentWrites(true))
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("%s offers no file transfer: %w", options.Host, err)
	}
	return &peer{ssh: conn, sftp: files}, nil
}

func (p *peer) close() {
	_ = p.sftp.Close()
	_ = p.ssh.Close()
}
