// SPDX-License-Identifier: Apache-2.0

package netplan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"
)

func TestKeyPair(t *testing.T) {
	keys, err := NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Check(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(keys.Private, "-----BEGIN RSA PRIVATE KEY-----\n") {
		t.Error("the private key is not PKCS#1")
	}
	public, comment, _, _, err := ssh.ParseAuthorizedKey([]byte(keys.Public))
	if err != nil || comment != "work@cluster.backend.ai.local" || public.Type() != "ssh-rsa" || strings.Contains(keys.Public, "\n") {
		t.Errorf("public key %q, %v", keys.Public, err)
	}
	for _, text := range []string{fmt.Sprint(keys), fmt.Sprintf("%+v", keys), fmt.Sprintf("%#v", keys)} {
		if strings.Contains(text, "PRIVATE") {
			t.Errorf("printing shows the private key: %.60s", text)
		}
	}
	for what, bad := range map[string]KeyPair{
		"mixed":        {Public: other.Public, Private: keys.Private},
		"no private":   {Public: keys.Public},
		"no public":    {Private: keys.Private},
		"not a key":    {Public: "ssh-rsa AAAA", Private: keys.Private},
		"cut":          {Public: keys.Public, Private: keys.Private[:400]},
		"public twice": {Public: keys.Public + "\n" + keys.Public, Private: keys.Private},
	} {
		err := bad.Check()
		if !errors.Is(err, ErrKeyPair) {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil && strings.Contains(err.Error(), "MII") {
			t.Errorf("%s: the error shows a key", what)
		}
		if _, err := SSHFiles(&bad, "", nil); !errors.Is(err, ErrKeyPair) {
			t.Errorf("%s: files: %v", what, err)
		}
	}
}

func TestSSHFiles(t *testing.T) {
	keys, err := NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	hostKey, err := NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	got, err := SSHFiles(&keys, hostKey, PortMapping{"sub1": {"10.0.0.2", 30002}, "main1": {"10.0.0.1", 30001}})
	if err != nil {
		t.Fatal(err)
	}
	want := []File{
		{"ssh/id_cluster", 0o600, []byte(keys.Private)},
		{"ssh/id_cluster.pub", 0o644, []byte(keys.Public + "\n")},
		{"ssh/ssh_host_rsa_key", 0o600, []byte(hostKey)},
		{"ssh/port-mapping.json", 0o644, []byte(`{"main1":["10.0.0.1",30001],"sub1":["10.0.0.2",30002]}`)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := SSHFiles(nil, "", nil); err != nil || len(got) != 0 {
		t.Errorf("nothing asked for: %v, %v", got, err)
	}
	if _, err := SSHFiles(nil, "x", nil); !errors.Is(err, ErrKeyPair) {
		t.Errorf("bad host key: %v", err)
	}
}
