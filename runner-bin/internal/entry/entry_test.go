// SPDX-License-Identifier: Apache-2.0

package entry

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/runner-bin/internal/identity"
	"agentd/runner-bin/internal/layout"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == ReportArg { // the hook's shell calls this binary back
		os.Exit(Report())
	}
	os.Exit(m.Run())
}

// bench is an entry whose effects on its process are only noted.
type bench struct {
	*Entry
	t       *testing.T
	assumed *identity.Identity
	program string
	argv    []string
	env     map[string]string
}

// newBench makes a container with a home, and with a shell if wanted.
func newBench(t *testing.T, shell bool, environ ...string) *bench {
	t.Helper()
	b := &bench{t: t}
	root := t.TempDir()
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = output.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b.Entry = &Entry{
		Layout:  layout.Layout{Root: root},
		Environ: append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, environ...),
		Stdout:  output,
		Stderr:  output,
		Self:    self,
		Assume: func(id identity.Identity) error {
			b.assumed = &id
			return nil
		},
		Exec: func(path string, argv, env []string) error {
			b.program, b.argv, b.env = path, argv, map[string]string{}
			for _, entry := range env {
				name, value, _ := strings.Cut(entry, "=")
				b.env[name] = value
			}
			return nil
		},
	}
	b.dir(layout.Work)
	b.file("/bin/cmd", "", 0o755)
	if shell {
		b.dir("/bin")
		if err := os.Symlink("/bin/sh", b.Layout.At("/bin/sh")); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) dir(path string) {
	b.t.Helper()
	if err := os.MkdirAll(b.Layout.At(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) file(path, text string, mode os.FileMode) {
	b.t.Helper()
	b.dir(filepath.Dir(path))
	if err := os.WriteFile(b.Layout.At(path), []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(path string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.Layout.At(path))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

func (b *bench) output() string {
	b.t.Helper()
	data, err := os.ReadFile(b.Stdout.Name())
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

// run expects the entry to reach the command. The bench's Exec returns, which counts as a failure to run.
func (b *bench) run(command ...string) {
	b.t.Helper()
	if code := b.Run(command); code != 126 || b.argv == nil {
		b.t.Fatalf("ended with %d before the command:\n%s", code, b.output())
	}
}

func TestRun(t *testing.T) {
	b := newBench(t, true, "LOCAL_USER_ID=1000", "LOCAL_GROUP_ID=100", "ADDITIONAL_GIDS= 44 ,5000", "X=1")
	b.run("cmd", "a", "b c")
	want := &identity.Identity{UID: 1000, GID: 100, Groups: []int{100, 44, 5000, 42}}
	if diff := cmp.Diff(want, b.assumed); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	if b.program != "/bin/cmd" || !slices.Equal(b.argv, []string{"cmd", "a", "b c"}) {
		t.Errorf("runs %s %q", b.program, b.argv)
	}
	for name, want := range map[string]string{
		"HOME": "/home/work", "USER": "work", "LOGNAME": "work", "SHELL": "/bin/sh", "X": "1", "LOCAL_USER_ID": "1000",
	} {
		if b.env[name] != want {
			t.Errorf("%s=%q, want %q", name, b.env[name], want)
		}
	}
	if got := b.read("/etc/passwd"); !strings.Contains(got, "work:x:1000:100::/home/work:/bin/sh\n") {
		t.Errorf("passwd:\n%s", got)
	}
	if got := b.output(); got != "bai-runner: cannot run cmd: <nil>\n" { // the bench's Exec
		t.Errorf("output %q", got)
	}
}

func TestDefaultsAndRoot(t *testing.T) {
	b := newBench(t, false)
	b.run("/bin/cmd")
	if b.assumed == nil || b.assumed.UID != 9001 || b.assumed.GID != 9001 {
		t.Errorf("identity %+v", b.assumed)
	}
	if _, ok := b.env["SHELL"]; ok {
		t.Error("SHELL is set in an image without one")
	}

	b = newBench(t, false, "LOCAL_USER_ID=0")
	b.run("cmd")
	if b.assumed != nil || b.env["USER"] != "root" || b.env["HOME"] != "/home/work" {
		t.Errorf("root session: %+v, %v", b.assumed, b.env)
	}
}

func TestBadInput(t *testing.T) {
	tests := []struct {
		name    string
		environ []string
		command []string
		code    int
		says    string
	}{
		{"no command", nil, nil, 1, "no command"},
		{"user", []string{"LOCAL_USER_ID=me"}, []string{"cmd"}, 1, `LOCAL_USER_ID="me"`},
		{"group", []string{"LOCAL_GROUP_ID=-1"}, []string{"cmd"}, 1, `LOCAL_GROUP_ID="-1"`},
		{"reserved number", []string{"LOCAL_USER_ID=4294967295"}, []string{"cmd"}, 1, "LOCAL_USER_ID"},
		{"groups", []string{"ADDITIONAL_GIDS=1,x"}, []string{"cmd"}, 1, `"x"`},
		{"no such program", nil, []string{"missing"}, 127, "missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, false, tt.environ...)
			if code := b.Run(tt.command); code != tt.code || !strings.Contains(b.output(), tt.says) || b.argv != nil {
				t.Errorf("code %d, output %q", code, b.output())
			}
		})
	}
}

// TestNoAccounts starts all the same where the accounts cannot be written.
func TestNoAccounts(t *testing.T) {
	b := newBench(t, false)
	b.file("/etc", "", 0o644)
	b.run("cmd")
	if b.assumed == nil || b.env["USER"] != "work" || !strings.Contains(b.output(), "user 9001 may have no name") {
		t.Errorf("%+v, output %q", b.assumed, b.output())
	}
}

func TestNotRoot(t *testing.T) {
	b := newBench(t, false)
	b.file("/etc/passwd", "alice:x:1234:1234::/home/alice:/bin/sh\n", 0o644)
	b.EUID = 1234
	b.run("cmd")
	if b.assumed != nil || b.env["USER"] != "alice" || !strings.Contains(b.output(), "instead of root") {
		t.Errorf("%+v, %v, output %q", b.assumed, b.env, b.output())
	}
}

func TestHook(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // the hook changes it
	b := newBench(t, true, "LOCAL_USER_ID=1000", "OLD=1")
	b.file(layout.ImageBootstrap, `
export NEW="line 1
line 2" PATH=/opt/tool:$PATH SEEN="$LOCAL_USER_ID:$LOCAL_GROUP_ID:$HOME"
unset OLD
local_only=1
umask 027
cd `+b.Layout.At(layout.Work)+`
sleep 60 &
echo $! > pid
`, 0o755)
	b.run("cmd")
	for name, want := range map[string]string{
		"NEW": "line 1\nline 2", "PATH": "/opt/tool:/usr/local/bin:/usr/bin:/bin", "SEEN": "1000:9001:/home/work", "OLD": "", "local_only": "",
	} {
		if b.env[name] != want {
			t.Errorf("%s=%q, want %q", name, b.env[name], want)
		}
	}
	if got, err := os.Getwd(); err != nil || got != b.Layout.At(layout.Work) {
		t.Errorf("directory %s, %v", got, err)
	}
	if pid := strings.TrimSpace(b.read(layout.Work + "/pid")); pid == "" {
		t.Error("no background job")
	} else if process, err := os.FindProcess(atoi(t, pid)); err == nil {
		_ = process.Kill()
	}
	umaskTo(t, 0o022, 0o027)
}

func TestHookEnds(t *testing.T) {
	tests := []struct {
		script string
		code   int
	}{
		{"exit 7", 7},
		{"exit 0", 0},
		{"kill -TERM $$", 143},
	}
	for _, tt := range tests {
		t.Run(tt.script, func(t *testing.T) {
			b := newBench(t, true)
			b.file(layout.ImageBootstrap, tt.script+"\n", 0o755)
			if code := b.Run([]string{"cmd"}); code != tt.code || b.argv != nil {
				t.Errorf("code %d, ran %q; output %q", code, b.argv, b.output())
			}
		})
	}
}

func TestHookSkipped(t *testing.T) {
	b := newBench(t, true)
	b.file(layout.ImageBootstrap, "exit 7\n", 0o644)
	b.run("cmd")
	if !strings.Contains(b.output(), "not an executable file") {
		t.Errorf("output %q", b.output())
	}
	b = newBench(t, false)
	b.file(layout.ImageBootstrap, "exit 7\n", 0o755)
	b.run("cmd")
	if !strings.Contains(b.output(), "no shell") {
		t.Errorf("output %q", b.output())
	}
}

func TestClientLinks(t *testing.T) {
	b := newBench(t, false)
	b.file("/usr/bin/scp", "", 0o755) // the image's own
	for range 2 {
		b.run("cmd")
	}
	for _, name := range []string{"ssh", "sftp"} {
		if target, err := os.Readlink(b.Layout.At("/usr/local/bin/" + name)); err != nil || target != layout.RunnerBinary {
			t.Errorf("%s: %q, %v", name, target, err)
		}
	}
	if _, err := os.Lstat(b.Layout.At("/usr/local/bin/scp")); err == nil {
		t.Error("the image's scp is shadowed")
	}

	b = newBench(t, false)
	b.Environ = []string{"PATH=/bin"}
	b.run("cmd")
	if _, err := os.Readlink(b.Layout.At("/bin/ssh")); err != nil {
		t.Errorf("no link in the only directory of PATH: %v", err)
	}

	b = newBench(t, false)
	b.Environ = []string{"PATH=:bin:/opt/x/bin:/opt/y/bin"}
	b.run("/bin/cmd")
	if _, err := os.Readlink(b.Layout.At("/opt/x/bin/ssh")); err != nil {
		t.Errorf("no link in the first directory of an unusual PATH: %v", err)
	}
}

func TestDotfiles(t *testing.T) {
	b := newBench(t, false)
	outside := t.TempDir()
	if err := os.Symlink(outside, b.Layout.At("/home/work/escape")); err != nil {
		t.Fatal(err)
	}
	b.file("/home/work/.old", "before", 0o644)
	b.file(layout.Dotfiles, `[
		{"path": ".vimrc", "data": "set nu", "perm": "644"},
		{"path": "/home/work/.config/app/rc", "data": "x\n", "perm": "600"},
		{"path": ".old", "data": "after", "perm": "0755"},
		{"path": "/etc/passwd", "data": "evil", "perm": "644"},
		{"path": "../../etc/passwd", "data": "evil", "perm": "644"},
		{"path": "escape/file", "data": "evil", "perm": "644"},
		{"path": ".bad", "data": "x", "perm": "rw-r--r--"},
		{"path": ".plain", "data": ""}
	]`, 0o644)
	b.run("cmd")
	for _, want := range []struct {
		path, text string
		mode       os.FileMode
	}{
		{"/home/work/.vimrc", "set nu\n", 0o644},
		{"/home/work/.config/app/rc", "x\n", 0o600},
		{"/home/work/.old", "after\n", 0o755},
		{"/home/work/.plain", "\n", 0o644},
	} {
		info, err := os.Stat(b.Layout.At(want.path))
		if err != nil || info.Mode() != want.mode || b.read(want.path) != want.text {
			t.Errorf("%s: %v, %v", want.path, info, err)
		}
	}
	if info, err := os.Stat(b.Layout.At("/home/work/.config/app")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("directory of a private dotfile: %v, %v", info, err)
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("written outside: %v, %v", entries, err)
	}
	for _, says := range []string{"/etc/passwd", "../../etc/passwd", "escape/file", ".bad"} {
		if !strings.Contains(b.output(), "dotfile "+says) {
			t.Errorf("nothing is said about %s:\n%s", says, b.output())
		}
	}

	b = newBench(t, false)
	b.file(layout.Dotfiles, "{", 0o644)
	b.run("cmd")
	if !strings.Contains(b.output(), "damaged") {
		t.Errorf("output %q", b.output())
	}
}
