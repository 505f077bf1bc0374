// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/runner-bin/internal/sshd/sshdtest"
	"agentd/runner-bin/internal/transfer"
)

func TestMain(m *testing.M) { os.Exit(sshdtest.Main(m.Run)) }

// day is a time that no file of a test gets by itself.
var day = time.Unix(1_000_000_000, 0)

// plant makes files below a directory, with modes and an old time; names that end in a slash are directories.
func plant(t *testing.T, dir string, files map[string]fs.FileMode) {
	t.Helper()
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte("content of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Backward(names) { // what is in a directory changes its time
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Chmod(path, files[name]), os.Chtimes(path, day, day)); err != nil {
			t.Fatal(err)
		}
	}
}

// look lists everything below a directory: mode, owner, whether it has the old time, and content.
func look(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		text := info.Mode().String()
		if sys, ok := info.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Getuid() {
			text += fmt.Sprintf(" owner %d", sys.Uid)
		}
		if info.ModTime().Equal(day) {
			text += " old"
		}
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(data)
		}
		found[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func scp(k *sshdtest.Kernel, args ...string) int {
	return transfer.RunSCP(k.Client, args, transfer.Streams{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: k.Log})
}

var sample = map[string]fs.FileMode{
	"tree/":         0o755,
	"tree/plain":    0o644,
	"tree/run.sh":   0o755,
	"tree/private":  0o600,
	"tree/sub/":     0o750,
	"tree/sub/deep": 0o640,
	"tree/빈 칸":      0o644,
}

// TestSCP copies in every direction. The umask of 022 is the test's own.
func TestSCP(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	tree := func(suffix, dirSuffix string) map[string]string {
		return map[string]string{
			"tree":          "drwxr-xr-x" + dirSuffix,
			"tree/plain":    "-rw-r--r--" + suffix + " content of tree/plain",
			"tree/run.sh":   "-rwxr-xr-x" + suffix + " content of tree/run.sh",
			"tree/private":  "-rw-------" + suffix + " content of tree/private",
			"tree/sub":      "drwxr-x---" + dirSuffix,
			"tree/sub/deep": "-rw-r-----" + suffix + " content of tree/sub/deep",
			"tree/빈 칸":      "-rw-r--r--" + suffix + " content of tree/빈 칸",
		}
	}
	tests := []struct {
		name string
		// args hold L for the local directory and R for the remote one, which is relative to the home.
		args []string
		// files lie where the copy comes from.
		fromLocal bool
		want      map[string]string
		toLocal   bool
	}{
		{
			name: "file up", args: []string{"L/tree/plain", "sub1:R/"}, fromLocal: true,
			want: map[string]string{"plain": "-rw-r--r-- content of tree/plain"},
		},
		{
			name: "file up under another name", args: []string{"-q", "L/tree/run.sh", "work@sub1:R/x"}, fromLocal: true,
			want: map[string]string{"x": "-rwxr-xr-x content of tree/run.sh"},
		},
		{
			name: "file down", args: []string{"sub1:R/tree/private", "L"}, toLocal: true,
			want: map[string]string{"private": "-rw------- content of tree/private"},
		},
		{name: "tree up", args: []string{"-r", "L/tree", "sub1:R"}, fromLocal: true, want: tree("", "")},
		{name: "tree down", args: []string{"-r", "sub1:R/tree", "L"}, toLocal: true, want: tree("", "")},
		{name: "tree up, kept", args: []string{"-rp", "L/tree", "sub1:R"}, fromLocal: true, want: tree(" old", " old")},
		{name: "tree down, kept", args: []string{"-p", "-r", "sub1:~/R/tree", "L/"}, toLocal: true, want: tree(" old", " old")},
		{name: "pattern", args: []string{"sub1:R/tree/p*", "L"}, toLocal: true, want: map[string]string{
			"plain":   "-rw-r--r-- content of tree/plain",
			"private": "-rw------- content of tree/private",
		}},
		{name: "several", args: []string{"L/tree/plain", "L/tree/빈 칸", "sub1:R"}, fromLocal: true, want: map[string]string{
			"plain": "-rw-r--r-- content of tree/plain",
			"빈 칸":   "-rw-r--r-- content of tree/빈 칸",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := sshdtest.Start(t, nil)
			near, far := t.TempDir(), filepath.Join(k.Home, "far")
			if err := os.Mkdir(far, 0o755); err != nil {
				t.Fatal(err)
			}
			from, to := far, far
			if tt.fromLocal {
				from = near
			}
			if tt.toLocal {
				to = near
			}
			plant(t, from, sample)
			args := make([]string, len(tt.args))
			for i, arg := range tt.args {
				if rest, ok := strings.CutPrefix(arg, "L"); ok {
					arg = near + rest
				}
				args[i] = strings.Replace(arg, "R", "far", 1)
			}
			if code := scp(k, args...); code != 0 {
				t.Fatalf("exit %d: %s", code, k.Log)
			}
			if diff := cmp.Diff(tt.want, look(t, to)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSCPBetweenRemotes(t *testing.T) {
	k := sshdtest.Start(t, nil)
	plant(t, k.Home, map[string]fs.FileMode{"a": 0o644})
	if code := scp(k, "sub1:a", "work@sub1:b"); code != 0 {
		t.Fatalf("exit %d: %s", code, k.Log)
	}
	if got := look(t, k.Home)["b"]; got != "-rw-r--r-- content of a" {
		t.Errorf("%q", got)
	}
}

// TestSCPExistingFile empties a longer file first and leaves its mode alone.
func TestSCPExistingFile(t *testing.T) {
	k := sshdtest.Start(t, nil)
	near := t.TempDir()
	plant(t, near, map[string]fs.FileMode{"short": 0o600})
	plant(t, k.Home, map[string]fs.FileMode{"a-file-with-a-long-content": 0o640})
	if code := scp(k, near+"/short", "sub1:a-file-with-a-long-content"); code != 0 {
		t.Fatalf("exit %d: %s", code, k.Log)
	}
	if got := look(t, k.Home)["a-file-with-a-long-content"]; got != "-rw-r----- content of short" {
		t.Errorf("%q", got)
	}
}

func TestSCPLargeFile(t *testing.T) {
	k := sshdtest.Start(t, nil)
	near := t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
	if err := os.WriteFile(near+"/large", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := scp(k, near+"/large", "sub1:large") + scp(k, "sub1:large", near+"/back"); code != 0 {
		t.Fatalf("exit %d: %s", code, k.Log)
	}
	if got, err := os.ReadFile(near + "/back"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestSCPFailures(t *testing.T) {
	k := sshdtest.Start(t, nil)
	near := t.TempDir()
	plant(t, near, map[string]fs.FileMode{"a": 0o644, "b": 0o644, "dir/": 0o755})
	if err := syscall.Mkfifo(near+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		says string
	}{
		{nil, "usage"},
		{[]string{"one"}, "usage"},
		{[]string{near + "/missing", "sub1:"}, "missing: "},
		{[]string{"sub1:missing", near}, "missing: "},
		{[]string{"sub1:*.none", near}, "*.none: "},
		{[]string{near + "/dir", "sub1:"}, "use -r"},
		{[]string{near + "/fifo", "sub1:"}, "not a regular file"},
		{[]string{near + "/a", near + "/b", "sub1:target"}, "not a directory"},
		{[]string{near + "/a", "sub1:target/"}, "not a directory"},
		{[]string{near + "/a", "sub1:no/such/dir"}, "no/such/dir"},
		{[]string{near + "/a", "root@sub1:"}, "permission denied"},
		{[]string{"-P", "x", near + "/a", "sub1:"}, "bad port"},
		{[]string{"-Z", near + "/a", "sub1:"}, "unknown option -Z"},
	}
	for _, tt := range tests {
		t.Run(tt.says, func(t *testing.T) {
			before := len(k.Log.String())
			if code := scp(k, tt.args...); code != 1 || !strings.Contains(k.Log.String()[before:], tt.says) {
				t.Errorf("exit %d, log %q", code, k.Log.String()[before:])
			}
		})
	}
	// What can be copied is copied.
	if code := scp(k, near+"/missing", near+"/a", "sub1:."); code != 1 || look(t, k.Home)["a"] == "" {
		t.Errorf("exit %d", code)
	}
}

// pair connects the two ends of the old protocol, as two machines' scp processes are.
func pair(t *testing.T, sourceArgs, sinkArgs []string) (source, sink int) {
	t.Helper()
	toSink, fromSource := io.Pipe()
	toSource, fromSink := io.Pipe()
	done := make(chan int)
	go func() {
		code := transfer.RunSCP(nil, sourceArgs, transfer.Streams{Stdin: toSource, Stdout: fromSource})
		_ = fromSource.Close()
		_ = toSource.Close()
		done <- code
	}()
	sink = transfer.RunSCP(nil, sinkArgs, transfer.Streams{Stdin: toSink, Stdout: fromSink})
	_ = fromSink.Close()
	_ = toSink.Close()
	return <-done, sink
}

func TestLegacy(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o022))
	from, to := t.TempDir(), t.TempDir()
	plant(t, from, sample)
	if a, b := pair(t, []string{"-rpf", from + "/tree"}, []string{"-rpt", to}); a != 0 || b != 0 {
		t.Fatalf("exit %d and %d", a, b)
	}
	if diff := cmp.Diff(look(t, from), look(t, to)); diff != "" {
		t.Errorf("(-sent +received):\n%s", diff)
	}

	to = t.TempDir()
	if a, b := pair(t, []string{"-f", from + "/tree/run.sh", from + "/tree/plain"}, []string{"-d", "-t", to}); a != 0 || b != 0 {
		t.Fatalf("exit %d and %d", a, b)
	}
	want := map[string]string{
		"run.sh": "-rwxr-xr-x content of tree/run.sh", "plain": "-rw-r--r-- content of tree/plain",
	}
	if diff := cmp.Diff(want, look(t, to)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// What cannot be sent is complained about and the rest goes on.
	to = t.TempDir()
	if a, b := pair(t, []string{"-f", from + "/missing", from + "/tree", from + "/tree/plain"}, []string{"-t", to}); a != 1 || b != 1 {
		t.Errorf("exit %d and %d", a, b)
	}
	if got := look(t, to); len(got) != 1 || got["plain"] == "" {
		t.Errorf("%v", got)
	}
}

// TestSinkDistrusts feeds the receiving side what a hostile or broken sender may say.
func TestSinkDistrusts(t *testing.T) {
	for name, input := range map[string]string{
		"path":                  "C0644 1 ../evil\nx\x00",
		"slash":                 "C0644 1 /etc/evil\nx\x00",
		"parent":                "D0755 0 ..\n",
		"empty name":            "C0644 1 \nx\x00",
		"negative size":         "C0644 -1 a\n",
		"mode":                  "C9999 1 a\nx\x00",
		"times":                 "Tx 0 0 0\n",
		"unknown line":          "Z\n",
		"end without beginning": "E\n",
		"directory without -r":  "D0755 0 d\n",
		"cut short":             "C0644 10 a\nabc",
		"endless line":          "C" + strings.Repeat("0", 1<<16),
		"fatal":                 "\x02the end\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "in")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			code := transfer.RunSCP(nil, []string{"-t", dir}, transfer.Streams{Stdin: strings.NewReader(input), Stdout: &out})
			if code != 1 {
				t.Errorf("exit %d, said %q", code, out.String())
			}
			if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
				t.Errorf("written outside: %v, %v", entries, err)
			}
		})
	}
}

// TestSinkStaysInStep takes the announced bytes of a file that it cannot write, and goes on with the next.
func TestSinkStaysInStep(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/a", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/a/a", 0o755); err != nil {
		t.Fatal(err)
	}
	// The directory a/a stands in the way of the file a/a.
	var out bytes.Buffer
	code := transfer.RunSCP(nil, []string{"-t", dir + "/a"}, transfer.Streams{
		Stdin: strings.NewReader("C0644 3 a\nC0644 3 b\nxyz\x00"), Stdout: &out,
	})
	if data, err := os.ReadFile(dir + "/a/b"); code != 1 || err != nil || string(data) != "xyz" {
		t.Errorf("exit %d, %q, %v; said %q", code, data, err, out.String())
	}
}

// TestOwnCommandWithoutLink has a client of the old protocol reach a kernel whose image has no scp.
func TestOwnCommandWithoutLink(t *testing.T) {
	k := sshdtest.Start(t, nil)
	session, err := k.Dial(t).NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Setenv("PATH", "/nonexistent"); err != nil {
		t.Fatal(err)
	}
	session.Stdin = strings.NewReader("C0640 3 file\nabc\x00")
	if err := session.Run("scp -t ."); err != nil {
		t.Fatal(err)
	}
	if got := look(t, k.Home)["file"]; got != "-rw-r----- abc" {
		t.Errorf("%q", got)
	}
}

// TestSFTPServerProcess is what the SSH server runs.
func TestSFTPServerProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(self, "sftp-server").CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("at the end of input: %q, %v", out, err)
	}
	cmd := exec.Command(self, "sftp-server")
	cmd.Stdin = strings.NewReader("garbage that is no packet")
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("garbage: %q", out)
	}
}
