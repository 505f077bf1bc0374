// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asCommand makes the test binary act as su-exec.
const asCommand = "BAI_RUNNER_TEST_SU_EXEC"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(SuExec(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// database is the one that the vectors describe; their user 1000 is in two more groups here.
var database = Database{
	Passwd: "root:x:0:0:root:/root:/bin/sh\nwork:x:1000:1000::/home/work:/bin/sh\nhomeless:x:1001:1001:::/bin/sh\n",
	Group:  "root:x:0:\nwork:x:1000:\nshadow:x:42:work\nvideo:x:44:alice,work\n",
}

func TestVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/vectors/runner/su-exec.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Cases []struct {
			Spec   string
			UID    any
			GID    any
			Groups any
			Home   string `json:"HOME"`
			Error  bool
			Argv   []string
		}
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	current := Identity{UID: 1000, GID: 1000}
	ran := 0
	for _, c := range vectors.Cases {
		if len(c.Argv) > 0 {
			continue // TestCommand
		}
		ran++
		t.Run(c.Spec, func(t *testing.T) {
			got, err := Resolve(c.Spec, database, current)
			if c.Error {
				if err == nil {
					t.Errorf("%+v, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := Identity{UID: 1000, GID: 1000, Home: "/home/work"}
			if n, ok := c.UID.(float64); ok {
				want.UID = int(n)
			}
			if n, ok := c.GID.(float64); ok {
				want.GID = int(n)
			}
			if strings.HasPrefix(c.Home, "/") {
				want.Home = c.Home
			}
			switch groups := c.Groups.(type) {
			case string: // getgrouplist
				want.Groups = []int{1000, 42, 44}
			case []any:
				for _, g := range groups {
					n, ok := g.(float64)
					if !ok {
						t.Fatalf("group %v", g)
					}
					want.Groups = append(want.Groups, int(n))
				}
			case nil: // an empty list item: ignored
				want.Groups = []int{1000}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if ran < 9 {
		t.Errorf("only %d vectors", ran)
	}
}

func TestResolve(t *testing.T) {
	tests := []struct {
		spec string
		want Identity
	}{
		{"work", Identity{1000, 1000, []int{1000, 42, 44}, "/home/work"}},
		{"work:video,shadow,7", Identity{1000, 44, []int{44, 42, 7}, "/home/work"}},
		{"4242", Identity{4242, 5, []int{5}, "/"}},
		{"homeless", Identity{1001, 1001, []int{1001}, "/"}},
		{"", Identity{0, 0, []int{0}, "/root"}},
		{":,,", Identity{0, 0, []int{0}, "/root"}},
	}
	for _, tt := range tests {
		t.Run(tt.spec, func(t *testing.T) {
			got, err := Resolve(tt.spec, database, Identity{UID: 0, GID: 5})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, spec := range []string{"-1", "4294967295", "4294967296", "1000:-5", "1000:4294967295", "x y"} {
		if got, err := Resolve(spec, database, Identity{}); err == nil {
			t.Errorf("%q gives %+v, want an error", spec, got)
		}
	}
}

func TestCommand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{nil, 0, "usage", ""},
		{[]string{"1000:1000"}, 0, "usage", ""},
		{[]string{"nosuchuserhere", "/bin/true"}, 1, "", "nosuchuserhere"},
		{[]string{"0:nosuchgrouphere", "/bin/true"}, 1, "", "nosuchgrouphere"},
	}
	if os.Geteuid() == 0 {
		tests = append(tests, []struct {
			args   []string
			code   int
			stdout string
			stderr string
		}{
			{[]string{"4242:4242,7", "sh", "-c", "id -u; id -g; id -G; echo $HOME $0", "x"}, 0, "4242\n4242\n4242 7\n/ x\n", ""},
			{[]string{"4242:4242", "sh", "-c", "exit 5"}, 5, "", ""},
			{[]string{"1000:1000", "/nonexist"}, 1, "", "/nonexist"},
			{[]string{"1000:1000", "nosuchprogramhere"}, 1, "", "not found"},
		}...)
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			cmd := exec.Command(self, tt.args...)
			cmd.Env = append(os.Environ(), asCommand+"=1")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run() // its code is looked at below
			if got := cmd.ProcessState.ExitCode(); got != tt.code {
				t.Errorf("exit code %d, want %d (%s)", got, tt.code, stderr.String())
			}
			if !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
			}
		})
	}
}

func TestWithVariable(t *testing.T) {
	got := WithVariable([]string{"A=1", "HOME=/x", "B=2", "HOME=/y"}, "HOME", "/z")
	if diff := cmp.Diff([]string{"A=1", "B=2", "HOME=/z"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
