// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"strings"
	"testing"

	"agentd/pkg/apis"
)

func TestFind(t *testing.T) {
	const cwd, home = "/home/op/src/agent/deep", "/home/op"
	all := []string{
		"/home/op/src/agent/deep/agent.toml", "/home/op/src/agent/agent.toml", "/home/op/src/agent/BUILD_ROOT",
		"/home/op/src/agent.toml", "/home/op/agent.toml", "/home/op/BUILD_ROOT", "/home/agent.toml", "/home/BUILD_ROOT",
		"/home/op/.config/backend.ai/agent.toml", "/etc/backend.ai/agent.toml", "/opt/x.toml",
	}
	without := func(gone ...string) []string {
		var left []string
		for _, p := range all {
			keep := true
			for _, g := range gone {
				keep = keep && p != g
			}
			if keep {
				left = append(left, p)
			}
		}
		return left
	}
	cases := []struct {
		name, explicit, env, cwd, home string
		files                          []string
		want                           string
		usage                          bool
		err                            string
	}{
		{name: "command line", explicit: "/opt/x.toml", env: "/etc/backend.ai/agent.toml", files: all, want: "/opt/x.toml"},
		{name: "relative on the command line", explicit: "../agent.toml", files: all, want: "/home/op/src/agent/agent.toml"},
		{name: "command line, missing", explicit: "/no", files: all, usage: true, err: `usage error: --config: file "/no" does not exist; name an existing agent.toml`},
		{name: "command line, directory", explicit: "/opt", files: all, usage: true, err: `usage error: --config: "/opt" is not a regular file; name an existing agent.toml`},
		{name: "environment", env: "/opt/x.toml", files: all, want: "/opt/x.toml"},
		{name: "environment is the only candidate", env: "/no", files: all, err: "Could not read config from: /no;"},
		{name: "working directory", files: all, want: "/home/op/src/agent/deep/agent.toml"},
		{name: "nearest build root", files: without(all[0]), want: "/home/op/src/agent/agent.toml"},
		{name: "no file in the nearest build root", files: without(all[0], all[1]), want: "/home/op/agent.toml"},
		{name: "above is no build root", files: without(all[0], all[2], all[5]), want: "/home/op/.config/backend.ai/agent.toml"},
		{name: "nothing above home", files: without(all[0], all[1], all[4], all[8]), want: "/etc/backend.ai/agent.toml"},
		{name: "no home", home: "-", files: without(all[0]), want: "/etc/backend.ai/agent.toml"},
		{name: "outside home", cwd: "/srv/x", files: all, want: "/home/op/.config/backend.ai/agent.toml"},
		{name: "cwd is the root", cwd: "/", home: "/", files: []string{"/agent.toml"}, want: "/agent.toml"},
		{
			name: "nothing anywhere", files: []string{"/home/op/src/agent/BUILD_ROOT"},
			err: "configuration file not found: Could not read config from: /home/op/src/agent/deep/agent.toml,/home/op/src/agent/agent.toml," +
				"/home/op/.config/backend.ai/agent.toml,/etc/backend.ai/agent.toml; write one with `agentd config sample` or name one with --config",
		},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			files := map[string]string{}
			for _, p := range tc.files {
				files[p] = ""
			}
			m := machine(files, map[string]string{"BACKEND_CONFIG_FILE": tc.env})
			dir, at := cwd, home
			if tc.cwd != "" {
				dir = tc.cwd
			}
			if tc.home != "" {
				at = strings.Trim(tc.home, "-")
			}
			got, err := Find(tc.explicit, m.Env, dir, at, m.Stat)
			if got != tc.want {
				t.Errorf("found %q, want %q", got, tc.want)
			}
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if errors.Is(err, ErrUsage) != tc.usage || errors.Is(err, apis.ErrNotFound) == (tc.usage || err == nil) {
				t.Errorf("error %v is of the wrong class", err)
			}
		})
	}
}
