// SPDX-License-Identifier: Apache-2.0

// Package keys prepares a kernel's SSH keys: the host key, the user's authorized_keys and key pair, and the entries that
// make the other kernels of the session reachable by name.
package keys

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"agentd/runner-bin/internal/layout"
)

// HostKey reads the host key that the agent made, or makes one that lasts as long as the process. The error explains
// why the agent's key was not used; the signer is usable all the same.
func HostKey(l layout.Layout) (ssh.Signer, error) {
	data, err := os.ReadFile(l.At(layout.HostKey))
	if err == nil {
		var signer ssh.Signer
		if signer, err = ssh.ParsePrivateKey(data); err == nil {
			return signer, nil
		}
		err = fmt.Errorf("%s is damaged: %w", layout.HostKey, err)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	_, private, genErr := ed25519.GenerateKey(rand.Reader)
	if genErr != nil {
		return nil, errors.Join(err, genErr)
	}
	signer, genErr := ssh.NewSignerFromKey(private)
	return signer, errors.Join(err, genErr)
}

// Setup prepares ~/.ssh for the session's user. It goes on after every failure; the error joins what did not work.
// Running it again changes nothing. A folder that the user mounted there is left as it is.
func Setup(l layout.Layout, get func(string) string) error {
	if Mounted(l) {
		return nil
	}
	dir := l.At(layout.UserSSH)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create %s: %w", layout.UserSSH, err)
	}
	errs := []error{tighten(dir, 0o700)}

	authorized := filepath.Join(dir, "authorized_keys")
	if _, err := os.Stat(authorized); errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, userKey(l.At(layout.ContainerKey), authorized))
	}
	errs = append(errs, tighten(authorized, 0o600))

	cluster, present, err := ReadCluster(l, get)
	errs = append(errs, err)
	config, accepted := "", ""
	if present {
		config = cluster.clientConfig(layout.SSHPort)
		line, err := publicLine(l)
		errs = append(errs, err)
		accepted = line
	}
	// Without a cluster key the blocks of an earlier session are removed.
	errs = append(errs,
		editBlock(filepath.Join(dir, "config"), config, true),
		editBlock(authorized, accepted, false))
	return errors.Join(errs...)
}

// publicLine returns the cluster's public key as a line of authorized_keys.
func publicLine(l layout.Layout) (string, error) {
	data, err := os.ReadFile(l.At(layout.ClusterPub))
	if err != nil {
		return "", fmt.Errorf("cluster public key: %w", err)
	}
	key, comment, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return "", fmt.Errorf("cluster public key: %s is damaged: %w", layout.ClusterPub, err)
	}
	line := string(ssh.MarshalAuthorizedKey(key))
	if comment != "" {
		line = line[:len(line)-1] + " " + comment + "\n"
	}
	return line, nil
}

// userKey gives a home without authorized_keys a key pair whose private half the user can download. A pair that is
// already there is used again.
func userKey(private, authorized string) error {
	data, err := os.ReadFile(private)
	if errors.Is(err, fs.ErrNotExist) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return err
		}
		block, err := ssh.MarshalPrivateKey(key, "work@container")
		if err != nil {
			return err
		}
		data = pem.EncodeToMemory(block)
		if err := os.WriteFile(private, data, 0o600); err != nil {
			return fmt.Errorf("write the user's key: %w", err)
		}
	} else if err != nil {
		return err
	}
	signer, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return fmt.Errorf("%s cannot be used: %w", layout.ContainerKey, err)
	}
	if err := os.WriteFile(authorized, ssh.MarshalAuthorizedKey(signer.PublicKey()), 0o600); err != nil {
		return fmt.Errorf("write authorized_keys: %w", err)
	}
	return nil
}

// tighten takes group and other bits away, as every SSH implementation demands. What is not there needs nothing.
func tighten(path string, mode fs.FileMode) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return os.Chmod(path, mode)
}

// editBlock brings our block of a file up to date, writing only when something changes. The new file takes the old
// one's place in one step: people may be logging in.
func editBlock(path, body string, front bool) error { return editBlockAs(path, body, front, 0o600) }

func editBlockAs(path, body string, front bool, mode fs.FileMode) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := withBlock(string(data), body, front)
	if text == string(data) {
		return nil
	}
	// A link stays a link: people keep their dotfiles elsewhere.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	temp := path + ".bai-runner"
	_ = os.Remove(temp)
	if err := os.WriteFile(temp, []byte(text), mode); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(temp, mode), os.Rename(temp, path)); err != nil {
		_ = os.Remove(temp)
		return err
	}
	return nil
}
