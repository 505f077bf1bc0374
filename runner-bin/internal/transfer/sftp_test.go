// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/runner-bin/internal/sshd/sshdtest"
	"agentd/runner-bin/internal/transfer"
)

func sftp(k *sshdtest.Kernel, input string, args ...string) (int, string) {
	var out bytes.Buffer
	code := transfer.RunSFTP(k.Client, args, transfer.Streams{Stdin: strings.NewReader(input), Stdout: &out, Stderr: k.Log})
	return code, out.String()
}

func TestSFTPBatch(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	k := sshdtest.Start(t, nil)
	near := t.TempDir()
	plant(t, near, sample)
	code, out := sftp(k, `
# a comment
@mkdir far
cd far
pwd
lcd `+near+`
put tree/plain
put tree/run.sh "with blank"
put -r tree
-rm nothing
ls
chmod 600 plain
rename plain tree/renamed
rm tree/p*
rmdir tree/missing-is-fine-because-of-the-next-minus
`, "-b", "-", "sub1")
	if code != 1 { // the last command fails and ends the batch
		t.Errorf("exit %d", code)
	}
	want := map[string]string{
		"with blank":    "-rwxr-xr-x content of tree/run.sh",
		"tree":          "drwxr-xr-x",
		"tree/renamed":  "-rw------- content of tree/plain",
		"tree/run.sh":   "-rwxr-xr-x content of tree/run.sh",
		"tree/sub":      "drwxr-x---",
		"tree/sub/deep": "-rw-r----- content of tree/sub/deep",
		"tree/빈 칸":      "-rw-r--r-- content of tree/빈 칸",
	}
	if diff := cmp.Diff(want, look(t, filepath.Join(k.Home, "far"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, says := range []string{"Remote working directory: " + k.Home + "/far\n", "\nplain\ntree\nwith blank\n"} {
		if !strings.Contains(out, says) {
			t.Errorf("the output lacks %q:\n%s", says, out)
		}
	}
	if strings.Contains(out, "mkdir") {
		t.Errorf("a command after @ is shown:\n%s", out)
	}
}

func TestSFTPDownload(t *testing.T) {
	k := sshdtest.Start(t, nil)
	plant(t, k.Home, sample)
	near := t.TempDir()
	batch := filepath.Join(t.TempDir(), "batch")
	sshdtest.Write(t, batch, []byte("lmkdir "+near+"/in\nlcd "+near+"\nlpwd\nget -rp tree in/\nget tree/plain in/other\nls -l tree/plain\nbye\nrm tree/plain\n"))
	code, out := sftp(k, "", "-b", batch, "sub1:.")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, k.Log)
	}
	got := look(t, near+"/in")
	if len(got) != len(sample)+1 || got["tree/private"] != "-rw------- old content of tree/private" || got["other"] == "" {
		t.Errorf("%v", got)
	}
	if _, err := os.Stat(k.Home + "/tree/plain"); err != nil {
		t.Error("a command after bye was carried out")
	}
	if !strings.Contains(out, "Local working directory: "+near+"\n") || !strings.Contains(out, "-rw-r--r-- ") {
		t.Errorf("output:\n%s", out)
	}
}

// TestSFTPInput goes on after errors when it is no batch.
func TestSFTPInput(t *testing.T) {
	k := sshdtest.Start(t, nil)
	code, _ := sftp(k, "nonsense\nget\nget -Z a\ncd /nonexistent\nrm \"open\nmkdir -p a/b\nln -s b a/link\nhelp\nquit\n", "sub1")
	if code != 0 {
		t.Errorf("exit %d", code)
	}
	if target, err := os.Readlink(k.Home + "/a/link"); err != nil || target != "b" {
		t.Errorf("%q, %v", target, err)
	}
	for _, says := range []string{`unknown command "nonsense"`, "usage: get", "unknown option -Z", "/nonexistent", "quote"} {
		if !strings.Contains(k.Log.String(), says) {
			t.Errorf("the log lacks %q: %s", says, k.Log)
		}
	}
}

func TestSFTPOneFile(t *testing.T) {
	k := sshdtest.Start(t, nil)
	plant(t, k.Home, map[string]fs.FileMode{"dir/file": 0o644})
	t.Chdir(t.TempDir())
	if code, _ := sftp(k, "", "sftp://work@sub1/dir/file"); code != 0 {
		t.Fatalf("exit %d: %s", code, k.Log)
	}
	if data, err := os.ReadFile("file"); err != nil || string(data) != "content of dir/file" {
		t.Errorf("%q, %v", data, err)
	}
	if code, _ := sftp(k, "", "sub1:missing"); code != 1 {
		t.Errorf("missing file: exit %d", code)
	}
	for _, args := range [][]string{nil, {"a", "b"}, {"-b", "/nonexistent", "sub1"}, {"root@sub1"}} {
		if code, _ := sftp(k, "", args...); code != 1 {
			t.Errorf("%v: exit %d", args, code)
		}
	}
}
