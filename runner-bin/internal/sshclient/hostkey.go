// SPDX-License-Identifier: Apache-2.0

package sshclient

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// hostKeys decides which host keys are accepted. Within a session there is one trust domain, so its hosts are not
// checked; elsewhere a new host is remembered and a changed one refused.
func (c *Client) hostKeys(t *target, config *ssh.ClientConfig) error {
	config.HostKeyCallback = ssh.InsecureIgnoreHostKey() //nolint:gosec // the kernels of one session trust each other
	if t.cluster || t.is("StrictHostKeyChecking", "no", "off") {
		return nil
	}
	own := t.get("UserKnownHostsFile")
	if own == "" {
		own = "~/.ssh/known_hosts"
	}
	var files []string
	store := ""
	for _, path := range append(strings.Fields(own), c.Layout.At("/etc/ssh/ssh_known_hosts")) {
		path = expandHome(path, c.Home)
		if store == "" {
			store = path
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			files = append(files, path)
		}
	}
	check, err := knownhosts.New(files...)
	if err != nil {
		return fmt.Errorf("known hosts: %w", err)
	}
	config.HostKeyAlgorithms = knownAlgorithms(check, t.address)
	config.HostKeyCallback = func(address string, remote net.Addr, key ssh.PublicKey) error {
		err := check(address, remote, key)
		var unknown *knownhosts.KeyError
		if !errors.As(err, &unknown) {
			return err
		}
		if len(unknown.Want) > 0 {
			return fmt.Errorf("the host key of %s has changed; if that is expected, remove line %d of %s",
				t.alias, unknown.Want[0].Line, unknown.Want[0].Filename)
		}
		if t.is("StrictHostKeyChecking", "yes") {
			return fmt.Errorf("the host key of %s is unknown and StrictHostKeyChecking is set", t.alias)
		}
		if err := remember(store, address, key); err != nil {
			c.Log.Linef("the host key of %s is not remembered: %v", t.alias, err)
		}
		return nil
	}
	return nil
}

// noKey is a key that no host has; asking for it tells which ones a host is known by.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// knownAlgorithms returns the algorithms of the keys that a host is known by, so that it does not show another one,
// which would look like a change. Nil means that any will do.
func knownAlgorithms(check ssh.HostKeyCallback, address string) []string {
	var unknown *knownhosts.KeyError
	if err := check(address, &net.TCPAddr{}, noKey{}); !errors.As(err, &unknown) {
		return nil
	}
	var algorithms []string
	for _, known := range unknown.Want {
		names := []string{known.Key.Type()}
		if names[0] == ssh.KeyAlgoRSA {
			names = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA}
		}
		for _, name := range names {
			if !slices.Contains(algorithms, name) {
				algorithms = append(algorithms, name)
			}
		}
	}
	return algorithms
}

func remember(path, address string, key ssh.PublicKey) error {
	if path == "/dev/null" || path == "none" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(knownhosts.Line([]string{knownhosts.Normalize(address)}, key) + "\n")
	return errors.Join(err, file.Close())
}
