// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/crypto/ssh"
)

// ErrKeyPair says that the keys of a session do not work.
var ErrKeyPair = errors.New("invalid SSH key pair")

const (
	keyBits       = 2048
	pemType       = "RSA PRIVATE KEY"
	clusterKeyTag = "work@cluster.backend.ai.local"
)

// KeyPair lets the kernels of a session reach each other by SSH.
type KeyPair struct {
	// Public is one line in OpenSSH's form.
	Public string
	// Private is PEM without a passphrase. It is a secret: never log it.
	Private string
}

// String hides the private key.
func (k KeyPair) String() string { return k.Public }

// GoString hides the private key.
func (k KeyPair) GoString() string { return fmt.Sprintf("netplan.KeyPair{Public: %q}", k.Public) }

// NewKeyPair makes a key pair as the manager makes them: RSA 2048, PKCS#1, and
// the comment work@cluster.backend.ai.local. It takes about a tenth of a second
// of processor time.
func NewKeyPair() (KeyPair, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return KeyPair{}, fmt.Errorf("making a cluster key: %w", err)
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return KeyPair{}, fmt.Errorf("making a cluster key: %w", err)
	}
	line := strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(public)), "\n")
	return KeyPair{Public: line + " " + clusterKeyTag, Private: encodePEM(key)}, nil
}

// NewHostKey makes the key by which a kernel's SSH server is known: RSA 2048,
// PKCS#1, PEM.
func NewHostKey() (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return "", fmt.Errorf("making a host key: %w", err)
	}
	return encodePEM(key), nil
}

func encodePEM(key *rsa.PrivateKey) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// Check makes sure that the private key can be used as it is and belongs to the
// public key. The error wraps [ErrKeyPair] and does not show any key.
func (k KeyPair) Check() error {
	signer, err := ssh.ParsePrivateKey([]byte(k.Private))
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return fmt.Errorf("the private key has a passphrase: %w", ErrKeyPair)
	case err != nil:
		return fmt.Errorf("the private key cannot be read (%w): %w", err, ErrKeyPair)
	}
	public, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(k.Public))
	switch {
	case err != nil:
		return fmt.Errorf("the public key cannot be read (%w): %w", err, ErrKeyPair)
	case len(bytes.TrimSpace(rest)) > 0:
		return fmt.Errorf("the public key is more than one line: %w", ErrKeyPair)
	case !bytes.Equal(public.Marshal(), signer.PublicKey().Marshal()):
		return fmt.Errorf("the private key does not belong to the public key: %w", ErrKeyPair)
	}
	return nil
}

// File is a file for a kernel's config directory.
type File struct {
	// Path is relative to config/.
	Path string
	// Mode is the permission bits. All files belong to the session's user: the
	// SSH server and clients run as that user and refuse keys of others.
	Mode    fs.FileMode
	Content []byte
}

// Where the SSH files are, relative to config/.
const (
	SSHDir          = "ssh"
	ClusterKeyFile  = SSHDir + "/id_cluster"
	HostKeyFile     = SSHDir + "/ssh_host_rsa_key"
	PortMappingFile = SSHDir + "/port-mapping.json"
)

// SSHFiles returns the files for SSH between kernels. Without a key pair there
// are no cluster keys, without a host key none of these, without a mapping no
// port-mapping.json. The keys are checked.
func SSHFiles(keys *KeyPair, hostKey string, mapping PortMapping) ([]File, error) {
	var files []File
	if keys != nil {
		if err := keys.Check(); err != nil {
			return nil, fmt.Errorf("cluster keys: %w", err)
		}
		files = append(files,
			File{ClusterKeyFile, 0o600, lineEnd(keys.Private)},
			File{ClusterKeyFile + ".pub", 0o644, lineEnd(keys.Public)})
	}
	if hostKey != "" {
		if _, err := ssh.ParsePrivateKey([]byte(hostKey)); err != nil {
			return nil, fmt.Errorf("host key: cannot be read (%w): %w", err, ErrKeyPair)
		}
		files = append(files, File{HostKeyFile, 0o600, lineEnd(hostKey)})
	}
	if len(mapping) > 0 {
		content, err := json.Marshal(mapping)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", PortMappingFile, err)
		}
		files = append(files, File{PortMappingFile, 0o644, content})
	}
	return files, nil
}

// lineEnd makes a text end with exactly one line end; OpenSSH refuses private
// keys without one.
func lineEnd(text string) []byte { return []byte(strings.TrimRight(text, "\r\n") + "\n") }
