// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const confPath = "/etc/backend.ai/agent.toml"

// minimal is the shortest acceptable file; everything has its default.
const minimal = "[agent]\nbackend = \"docker\"\n[container]\n[resource]\n[etcd]\n"

// machine is a Linux machine on which the agent runs as root from /srv.
func machine(files map[string]string, env map[string]string) *Machine {
	disk := fstest.MapFS{}
	for path, text := range files {
		disk[strings.TrimPrefix(path, "/")] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return &Machine{
		Env:      func(k string) string { return env[k] },
		ReadFile: func(p string) ([]byte, error) { return fs.ReadFile(disk, strings.TrimPrefix(p, "/")) },
		Stat:     func(p string) (fs.FileInfo, error) { return fs.Stat(disk, strings.TrimPrefix(p, "/")) },
		LookupUser: func(name string) (int, int, error) {
			if name == "work" {
				return 1100, 1101, nil
			}
			return 0, 0, errors.New("none")
		},
		LookupGroup: func(name string) (int, error) {
			if name == "staff" {
				return 50, nil
			}
			return 0, errors.New("none")
		},
		Cwd: "/srv", Home: "/home/op", OS: "linux", Arch: "amd64",
	}
}

// load reads src with an environment.
func load(src string, env map[string]string) (*Config, *Report, error) {
	return machine(map[string]string{confPath: src}, env).Load(confPath)
}

func mustLoad(t *testing.T, src string, env map[string]string) (*Config, *Report) {
	t.Helper()
	c, r, err := load(src, env)
	if err != nil {
		t.Fatalf("Load: %v\nfile:\n%s", err, src)
	}
	return c, r
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); run with -update after checking:\n%s", path, diff)
	}
}

func readTestdata(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
