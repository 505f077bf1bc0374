// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// maxKeyFile is how much of an authorized_keys file is read.
const maxKeyFile = 1 << 20

// Restrictions that a key may carry, as they are named in authorized_keys.
const (
	noTerminal   = "no-pty"
	noForwarding = "no-port-forwarding"
)

// Names under which restrictions travel from the login to the sessions.
const (
	extRestrictions = "restrictions"
	extCommand      = "command"
)

var (
	errUser = errors.New("this user cannot log in")
	errKey  = errors.New("unknown key")
)

// authorize decides about a key. Files are read for each try, so that a key works as soon as it is written.
func (s *Server) authorize(conn ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	if !slices.Contains(s.config.Users, conn.User()) {
		return nil, errUser
	}
	if data, err := os.ReadFile(s.config.ClusterKeys); err == nil {
		if permissions := s.match(data, key); permissions != nil {
			return permissions, nil
		}
	}
	data, err := readTrusted(s.config.UserKeys)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.config.Log.Linef("sshd: keys ignored: %v", err)
		}
		return nil, errKey
	}
	if permissions := s.match(data, key); permissions != nil {
		return permissions, nil
	}
	return nil, errKey
}

// readTrusted reads a file of keys unless somebody else could have written it.
func readTrusted(path string) ([]byte, error) {
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	for name, i := range map[string]fs.FileInfo{filepath.Dir(path): dir, path: info} {
		sys, ok := i.Sys().(*syscall.Stat_t)
		switch {
		case !ok:
			return nil, fmt.Errorf("%s has no known owner", name)
		case sys.Uid != 0 && int(sys.Uid) != os.Geteuid():
			return nil, fmt.Errorf("%s belongs to user %d", name, sys.Uid)
		case i.Mode().Perm()&0o022 != 0:
			return nil, fmt.Errorf("%s is writable by others (mode %#o)", name, i.Mode().Perm())
		}
	}
	return io.ReadAll(io.LimitReader(file, maxKeyFile))
}

// match looks the key up. A key with options that we do not know is not accepted: they may be there to narrow its use.
func (s *Server) match(data []byte, key ssh.PublicKey) *ssh.Permissions {
	wanted := key.Marshal()
	for line := range bytes.Lines(data) {
		known, _, options, _, err := ssh.ParseAuthorizedKey(line)
		if err != nil || !bytes.Equal(known.Marshal(), wanted) {
			continue
		}
		permissions, err := permissionsOf(options)
		if err != nil {
			s.config.Log.Linef("sshd: key %s ignored: %v", ssh.FingerprintSHA256(key), err)
			continue
		}
		return permissions
	}
	return nil
}

func permissionsOf(options []string) (*ssh.Permissions, error) {
	var restricted []string
	extensions := map[string]string{}
	for _, option := range options {
		name, value, _ := strings.Cut(option, "=")
		switch strings.ToLower(name) {
		case "restrict":
			restricted = append(restricted, noTerminal, noForwarding)
		case noTerminal:
			restricted = append(restricted, noTerminal)
		case noForwarding:
			restricted = append(restricted, noForwarding)
		case "pty":
			restricted = slices.DeleteFunc(restricted, func(r string) bool { return r == noTerminal })
		case "port-forwarding":
			restricted = slices.DeleteFunc(restricted, func(r string) bool { return r == noForwarding })
		case "command":
			extensions[extCommand] = unquote(value)
		case "no-agent-forwarding", "no-x11-forwarding", "no-user-rc", "agent-forwarding", "x11-forwarding", "user-rc":
			// neither exists here
		default:
			return nil, fmt.Errorf("its option %s is not supported", name)
		}
	}
	extensions[extRestrictions] = strings.Join(restricted, ",")
	return &ssh.Permissions{Extensions: extensions}, nil
}

// unquote takes an option's value out of its double quotes, in which only the quote itself is escaped.
func unquote(value string) string {
	value = strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`)
	return strings.ReplaceAll(value, `\"`, `"`)
}

func restrictions(p *ssh.Permissions) []string {
	if p == nil {
		return nil
	}
	return strings.Split(p.Extensions[extRestrictions], ",")
}

// forcedCommand is the only command that a key may run, empty when it may run any.
func forcedCommand(p *ssh.Permissions) string {
	if p == nil {
		return ""
	}
	return p.Extensions[extCommand]
}
