// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzLoad: whatever is in the file and the environment, loading ends with a
// configuration that can be shown or with errors about the file.
func FuzzLoad(f *testing.F) {
	for _, name := range []string{"full.toml", "bad.toml", "old.toml"} {
		f.Add(readTestdata(f, name), "")
	}
	f.Add(Sample(), "30000-31000")
	f.Add(minimal+"[[agents]]\nagent={id='a'}\n[[agents]]\n", "::1")
	f.Add("agents = [[]]\nagent = [{}]\nlogging = {pkg-ns = {a = {}}}\nredis.override-configs = 1", "-")
	f.Add("a = 1\na.b = 2\n[a]\n", "0")
	f.Fuzz(func(t *testing.T, src, env string) {
		m := machine(map[string]string{confPath: src}, nil)
		m.Env = func(string) string { return env }
		c, report, err := m.Load(confPath)
		if report == nil || (c == nil) == (err == nil) {
			t.Fatalf("Load = %v, %v, %v", c, report, err)
		}
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("an error without a text")
			}
			return
		}
		if _, err := json.Marshal(c); err != nil {
			t.Fatalf("the configuration cannot be shown: %v", err)
		}
	})
}
