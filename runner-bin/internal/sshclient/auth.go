// SPDX-License-Identifier: Apache-2.0

package sshclient

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/term"
)

// passwordTries is how often a person may mistype.
const passwordTries = 3

// authMethods returns the ways to log in: keys, and a password where somebody can type one.
func (c *Client) authMethods(t *target) []ssh.AuthMethod {
	ask := c.Ask
	if t.is("BatchMode", "yes") {
		ask = nil
	}
	methods := []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) { return c.signers(t, ask), nil })}
	if ask != nil && !t.is("PasswordAuthentication", "no") && !t.cluster {
		methods = append(methods, ssh.RetryableAuthMethod(ssh.PasswordCallback(func() (string, error) {
			return ask(fmt.Sprintf("%s@%s's password: ", t.user, t.alias))
		}), passwordTries))
	}
	return methods
}

// signers collects the keys: the configured ones, the agent's, and those with the usual names.
func (c *Client) signers(t *target, ask func(string) (string, error)) []ssh.Signer {
	var signers []ssh.Signer
	seen := map[string]bool{}
	file := func(path string) {
		path = expandHome(path, c.Home)
		if seen[path] {
			return
		}
		seen[path] = true
		data, err := os.ReadFile(path)
		if err != nil {
			return
		}
		signer, err := ssh.ParsePrivateKey(data)
		var locked *ssh.PassphraseMissingError
		switch {
		case err == nil:
			signers = append(signers, signer)
		case errors.As(err, &locked) && locked.PublicKey != nil && ask != nil:
			signers = append(signers, &lockedSigner{path: path, data: data, public: locked.PublicKey, ask: ask})
		default:
			c.Log.Linef("key %s cannot be used: %v", path, err)
		}
	}
	for _, path := range t.identities {
		file(path)
	}
	if t.is("IdentitiesOnly", "yes") && len(t.identities) > 0 {
		return signers
	}
	signers = append(signers, c.agentSigners()...)
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		file(filepath.Join(c.Home, ".ssh", name))
	}
	return signers
}

func (c *Client) agentSigners() []ssh.Signer {
	path := c.Getenv("SSH_AUTH_SOCK")
	if path == "" {
		return nil
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil
	}
	// The connection is needed for signing later; it ends with the process.
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		_ = conn.Close()
		return nil
	}
	return signers
}

// lockedSigner is a key under a passphrase, which is asked for only when the host accepts the key.
type lockedSigner struct {
	path   string
	data   []byte
	public ssh.PublicKey
	ask    func(string) (string, error)
	open   ssh.Signer
}

// PublicKey implements ssh.Signer.
func (l *lockedSigner) PublicKey() ssh.PublicKey { return l.public }

// Sign implements ssh.Signer.
func (l *lockedSigner) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return l.SignWithAlgorithm(rand, data, "")
}

// SignWithAlgorithm implements ssh.AlgorithmSigner.
func (l *lockedSigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if l.open == nil {
		phrase, err := l.ask(fmt.Sprintf("Enter passphrase for key '%s': ", l.path))
		if err != nil {
			return nil, err
		}
		if l.open, err = ssh.ParsePrivateKeyWithPassphrase(l.data, []byte(phrase)); err != nil {
			return nil, fmt.Errorf("key %s: %w", l.path, err)
		}
	}
	if signer, ok := l.open.(ssh.AlgorithmSigner); ok && algorithm != "" {
		return signer.SignWithAlgorithm(rand, data, algorithm)
	}
	return l.open.Sign(rand, data)
}

// terminalAsk returns a way to ask the person at the terminal, nil when there is none.
func terminalAsk() func(string) (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	_ = tty.Close()
	return func(prompt string) (string, error) {
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return "", err
		}
		defer tty.Close()
		_, _ = io.WriteString(tty, prompt)
		secret, err := term.ReadPassword(int(tty.Fd()))
		_, _ = io.WriteString(tty, "\n")
		return string(secret), err
	}
}
