// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadHasNoSideEffects(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path := filepath.Join(dir, "agent.toml")
	if err := os.WriteFile(path, []byte(minimal+"[logging.file]\npath='logs'\nfilename='x'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, report, err := Load(path, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Warnings) > 0 {
		t.Errorf("warnings: %v", report.Warnings)
	}
	if got := list(t, dir); got != "agent.toml" {
		t.Errorf("after Load the directory holds %s", got)
	}

	c.Agent.IPCBasePath = Path(filepath.Join(dir, "ipc"))
	c.Agentd.StateDir = Path(filepath.Join(dir, "state", "agentd"))
	c.Debug.Coredump.Enabled = true
	for range 2 { // being there already is success
		if err := c.CreateDirs(); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := list(t, dir), "agent.toml coredumps ipc logs scratches state tmp var"; got != want {
		t.Errorf("CreateDirs made %s, want %s", got, want)
	}
	for path, want := range map[string]os.FileMode{"state": 0o755, "state/agentd": 0o700, "scratches": 0o711} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

func TestCreateDirsNamesTheKeys(t *testing.T) {
	dir := t.TempDir()
	block := filepath.Join(dir, "file")
	if err := os.WriteFile(block, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &Config{
		Agentd:    Agentd{StateDir: Path(filepath.Join(dir, "ok")), AdminSocket: Path(filepath.Join(dir, "ok", "s"))},
		Agent:     Agent{VarBasePath: Path(block)},
		Container: Container{ContainerNode: ContainerNode{ScratchRoot: Path(filepath.Join(block, "scratch"))}},
		Agents:    []AgentEntry{{Container: ContainerNode{ScratchRoot: Path(filepath.Join(block, "other"))}}},
	}
	err := c.CreateDirs()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"agent.var-base-path: cannot make the directory " + block + ":",
		"container.scratch-root: cannot make the directory " + block + "/scratch:",
		"agents[0].container.scratch-root: cannot make the directory " + block + "/other:",
		"; make it by hand or choose another",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	if got := list(t, dir); got != "file ok" {
		t.Errorf("the directory holds %s: one failure must not keep the others away", got)
	}
}

func TestWritableFileIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.toml")
	if err := os.WriteFile(path, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // whatever the umask says
		t.Fatal(err)
	}
	_, report, err := Load(path, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Warnings) != 1 || !strings.HasSuffix(report.Warnings[0].String(), "run chmod o-w on it") {
		t.Errorf("warnings = %v", report.Warnings)
	}
}

// The machine's own users are looked up.
func TestSystem(t *testing.T) {
	m, err := System(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if uid, gid, err := m.LookupUser("root"); err != nil || uid != 0 || gid != 0 {
		t.Errorf("root is %d:%d, %v", uid, gid, err)
	}
	if gid, err := m.LookupGroup("root"); err != nil || gid != 0 {
		t.Errorf("group root is %d, %v", gid, err)
	}
	if _, _, err := m.LookupUser("no such user"); err == nil {
		t.Error("an unknown user was found")
	}
	if _, err := m.LookupGroup("no such group"); err == nil {
		t.Error("an unknown group was found")
	}
	if m.UID != os.Getuid() || m.Cwd == "" {
		t.Errorf("uid %d in %q", m.UID, m.Cwd)
	}
}

func list(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return strings.Join(names, " ")
}
