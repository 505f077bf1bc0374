// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"agentd/runner-bin/internal/layout"
)

// container makes the directories of a container, with a cluster key if wanted.
func container(t *testing.T, cluster bool) layout.Layout {
	t.Helper()
	l := layout.Layout{Root: t.TempDir()}
	for _, dir := range []string{layout.Work, layout.Config + "/ssh"} {
		if err := os.MkdirAll(l.At(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if cluster {
		private, public := keyPair(t)
		write(t, l.At(layout.ClusterKey), private)
		write(t, l.At(layout.ClusterPub), strings.TrimSuffix(public, "\n")+" cluster@session\n")
	}
	return l
}

func keyPair(t *testing.T) (private, public string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func variables(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

var cluster = variables(map[string]string{
	"BACKENDAI_CLUSTER_HOSTS":    "main1,sub1,sub2",
	"BACKENDAI_CLUSTER_REPLICAS": "main:1,sub:2",
})

func TestSetupInCluster(t *testing.T) {
	l := container(t, true)
	ssh := l.At(layout.UserSSH)
	if err := os.MkdirAll(ssh, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(ssh, 0o777); err != nil {
		t.Fatal(err)
	}
	write(t, ssh+"/config", "Host *\n\tPort 22\n")
	write(t, ssh+"/authorized_keys", "ssh-ed25519 AAAA mine")
	if err := os.Chmod(ssh+"/authorized_keys", 0o664); err != nil {
		t.Fatal(err)
	}

	for range 3 { // as often as the container starts
		if err := Setup(l, cluster); err != nil {
			t.Fatal(err)
		}
		wantConfig := `# BEGIN bai-runner cluster
Host main1 sub1 sub2 main? main?? main??? sub? sub?? sub???
	Port 2200
	User work
	StrictHostKeyChecking no
	UserKnownHostsFile /dev/null
	LogLevel ERROR
	IdentityFile ` + l.At(layout.ClusterKey) + `
Host *
# END bai-runner cluster
Host *
	Port 22
`
		if diff := cmp.Diff(wantConfig, read(t, ssh+"/config")); diff != "" {
			t.Errorf("config (-want +got):\n%s", diff)
		}
		wantKeys := "ssh-ed25519 AAAA mine\n# BEGIN bai-runner cluster\n" + read(t, l.At(layout.ClusterPub)) +
			"# END bai-runner cluster\n"
		if diff := cmp.Diff(wantKeys, read(t, ssh+"/authorized_keys")); diff != "" {
			t.Errorf("authorized_keys (-want +got):\n%s", diff)
		}
	}
	for path, want := range map[string]fs.FileMode{ssh: 0o700, ssh + "/config": 0o600, ssh + "/authorized_keys": 0o600} {
		if got := mode(t, path); got != want {
			t.Errorf("%s has mode %#o, want %#o", path, got, want)
		}
	}
	if _, err := os.Stat(l.At(layout.ContainerKey)); err == nil {
		t.Error("a key pair was made for a user who has one")
	}

	// The same home in a session without a cluster.
	for _, file := range []string{layout.ClusterKey, layout.ClusterPub} {
		if err := os.Remove(l.At(file)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Setup(l, cluster); err != nil {
		t.Fatal(err)
	}
	if got := read(t, ssh+"/config"); got != "Host *\n\tPort 22\n" {
		t.Errorf("config keeps %q", got)
	}
	if got := read(t, ssh+"/authorized_keys"); got != "ssh-ed25519 AAAA mine\n" {
		t.Errorf("authorized_keys keeps %q", got)
	}
}

// TestMounted leaves a folder alone that the user brought, and names the hosts elsewhere.
func TestMounted(t *testing.T) {
	l := container(t, true)
	ssh := l.At(layout.UserSSH)
	if err := os.MkdirAll(ssh, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, ssh+"/authorized_keys", "# mine\n")
	if err := os.MkdirAll(l.At("/proc/self"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, l.At("/proc/self/mountinfo"), "22 1 8:1 / / rw - ext4 /dev/a rw\n23 22 8:1 /x /home/work/.ssh ro - ext4 /dev/a rw\n")
	for range 2 {
		if err := Setup(l, cluster); err != nil {
			t.Fatal(err)
		}
		if err := SystemConfig(l, cluster); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(ssh); err != nil || len(entries) != 1 || read(t, ssh+"/authorized_keys") != "# mine\n" {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	if got := read(t, l.At("/etc/ssh/ssh_config")); strings.Count(got, "Host main1 ") != 1 {
		t.Errorf("ssh_config:\n%s", got)
	}
	if got := mode(t, l.At("/etc/ssh/ssh_config")); got != 0o644 {
		t.Errorf("ssh_config has mode %#o", got)
	}
}

func TestSetupMakesUserKey(t *testing.T) {
	l := container(t, false)
	if err := Setup(l, variables(nil)); err != nil {
		t.Fatal(err)
	}
	private := l.At(layout.ContainerKey)
	if got := mode(t, private); got != 0o600 {
		t.Errorf("id_container has mode %#o", got)
	}
	signer, err := ssh.ParsePrivateKey([]byte(read(t, private)))
	if err != nil {
		t.Fatal(err)
	}
	authorized := l.At(layout.UserSSH + "/authorized_keys")
	want := string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
	if got := read(t, authorized); got != want {
		t.Errorf("authorized_keys %q, want %q", got, want)
	}

	// A pair that is there is used again, not replaced.
	before := read(t, private)
	if err := os.Remove(authorized); err != nil {
		t.Fatal(err)
	}
	if err := Setup(l, variables(nil)); err != nil {
		t.Fatal(err)
	}
	if read(t, private) != before || read(t, authorized) != want {
		t.Error("the key pair changed")
	}
}

func TestSetupGoesOn(t *testing.T) {
	t.Run("home cannot be written", func(t *testing.T) {
		l := container(t, true)
		if err := os.Remove(l.At(layout.Work)); err != nil {
			t.Fatal(err)
		}
		if err := Setup(l, cluster); err == nil {
			t.Error("no error")
		}
	})
	t.Run("damaged files", func(t *testing.T) {
		l := container(t, true)
		write(t, l.At(layout.PortMapping), "[")
		write(t, l.At(layout.ContainerKey), "no key")
		err := Setup(l, cluster)
		if err == nil || !strings.Contains(err.Error(), "port-mapping.json") || !strings.Contains(err.Error(), "id_container") {
			t.Errorf("error %v", err)
		}
		if got := read(t, l.At(layout.UserSSH+"/config")); !strings.Contains(got, "Host main1") {
			t.Errorf("config %q", got)
		}
	})
	t.Run("damaged public key", func(t *testing.T) {
		l := container(t, true)
		write(t, l.At(layout.ClusterPub), "no key")
		if err := Setup(l, cluster); err == nil || !strings.Contains(err.Error(), "id_cluster.pub") {
			t.Errorf("error %v", err)
		}
	})
}

func TestLinkStaysLink(t *testing.T) {
	l := container(t, true)
	ssh := l.At(layout.UserSSH)
	if err := os.Mkdir(ssh, 0o700); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "dotfiles")
	write(t, elsewhere, "# mine\n")
	if err := os.Symlink(elsewhere, ssh+"/config"); err != nil {
		t.Fatal(err)
	}
	if err := Setup(l, cluster); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(ssh + "/config"); err != nil || target != elsewhere {
		t.Errorf("link %q, %v", target, err)
	}
	if got := read(t, elsewhere); !strings.HasPrefix(got, blockBegin) || !strings.HasSuffix(got, "# mine\n") {
		t.Errorf("%q", got)
	}
}

func TestPortMapping(t *testing.T) {
	l := container(t, true)
	write(t, l.At(layout.PortMapping), `{"main1":["10.0.0.1",30001],"sub1":["fd00::1","30002"],"bad":["x\n",1],"worse":7}`)
	c, ok, err := ReadCluster(l, cluster)
	if !ok || err == nil {
		t.Fatalf("%v, %v", ok, err)
	}
	if len(c.Endpoints) != 0 {
		// One entry that is no list makes the whole file unreadable.
		t.Errorf("endpoints %v", c.Endpoints)
	}

	write(t, l.At(layout.PortMapping), `{"main1":["10.0.0.1",30001],"sub1":["fd00::1","30002"],"bad":["x\n",1],"low":["a",0]}`)
	c, _, err = ReadCluster(l, cluster)
	if err == nil || !strings.Contains(err.Error(), `"bad"`) || !strings.Contains(err.Error(), `"low"`) {
		t.Errorf("error %v", err)
	}
	want := `Host main1
	HostName 10.0.0.1
	Port 30001
	User work
	StrictHostKeyChecking no
	UserKnownHostsFile /dev/null
	LogLevel ERROR
	IdentityFile KEY
Host sub1
	HostName fd00::1
	Port 30002
	User work
	StrictHostKeyChecking no
	UserKnownHostsFile /dev/null
	LogLevel ERROR
	IdentityFile KEY
Host sub2
	Port 2200
	User work
	StrictHostKeyChecking no
	UserKnownHostsFile /dev/null
	LogLevel ERROR
	IdentityFile KEY
Host *
`
	c.IdentityFile = "KEY"
	if diff := cmp.Diff(want, c.clientConfig(2200)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBadNames(t *testing.T) {
	l := container(t, true)
	c, _, err := ReadCluster(l, variables(map[string]string{
		"BACKENDAI_CLUSTER_HOSTS":    "main1, sub1 ,,a b,x\nProxyCommand evil,*,-o,main1",
		"BACKENDAI_CLUSTER_REPLICAS": "main:1,*:3,",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"main1", "sub1"}, c.Hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"main"}, c.Roles); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
}

func TestBlocks(t *testing.T) {
	block := blockBegin + "\nnew\n" + blockEnd + "\n"
	tests := []struct {
		name, text string
		front      bool
		want       string
	}{
		{"empty file", "", false, block},
		{"at the end, after a line without break", "a", false, "a\n" + block},
		{"in front", "a\n", true, block + "a\n"},
		{"replaced", "a\n" + blockBegin + "\nold\n" + blockEnd + "\nb\n", false, "a\nb\n" + block},
		{"several", strings.Repeat(blockBegin+"\nold\n"+blockEnd+"\n", 3) + "b\n", true, block + "b\n"},
		{"begin without end keeps the user's lines", blockBegin + "\na\nb\n", false, "a\nb\n" + block},
		{"end without begin", "a\n" + blockEnd + "\n", false, "a\n" + blockEnd + "\n" + block},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := withBlock(tt.text, "new\n", tt.front)
			if got != tt.want {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
			if again := withBlock(got, "new\n", tt.front); again != got {
				t.Errorf("again: %q", again)
			}
		})
	}
}

func TestHostKey(t *testing.T) {
	l := container(t, false)
	made, err := HostKey(l)
	if err != nil || made == nil {
		t.Fatalf("%v, %v", made, err)
	}
	private, public := keyPair(t)
	write(t, l.At(layout.HostKey), private)
	given, err := HostKey(l)
	if err != nil || !bytes.Equal(ssh.MarshalAuthorizedKey(given.PublicKey()), []byte(public)) {
		t.Errorf("the agent's key was not used: %v", err)
	}
	write(t, l.At(layout.HostKey), "no key")
	if spare, err := HostKey(l); err == nil || spare == nil {
		t.Errorf("damaged key: %v, %v; want a key and an error", spare, err)
	}
}
