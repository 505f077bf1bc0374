// SPDX-License-Identifier: Apache-2.0

// Package entry is the first thing that runs in a kernel container: as root it makes the image fit the session, then it
// becomes the session's user and turns into the kernel's command.
package entry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"agentd/runner-bin/internal/accounts"
	"agentd/runner-bin/internal/identity"
	"agentd/runner-bin/internal/keys"
	"agentd/runner-bin/internal/layout"
	"agentd/runner-bin/internal/say"
)

// defaultID is the user and group ID of sessions for which the agent names none.
const defaultID = 9001

// shadowGID is Debian's group for reading shadow; the reference gives it to every session.
const shadowGID = 42

// Entry is one start of a container. The functions are the only ways in which it changes its own process.
type Entry struct {
	Layout  layout.Layout
	Environ []string
	Stdout  *os.File
	Stderr  *os.File
	// Self is the path of this binary inside the container.
	Self string
	// EUID is who we are at the start; everything but 0 means that identities cannot be changed.
	EUID int
	// Assume changes the process's identity.
	Assume func(identity.Identity) error
	// Exec replaces the process; it returns only on failure.
	Exec func(path string, argv, env []string) error
}

// New returns the entry of the real container.
func New() *Entry {
	self, err := os.Executable()
	if err != nil {
		self = layout.RunnerBinary
	}
	return &Entry{
		Environ: os.Environ(),
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Self:    self,
		EUID:    os.Geteuid(),
		Assume:  identity.Identity.Assume,
		Exec:    syscall.Exec,
	}
}

// settings is what the agent said about the user, read from the environment.
type settings struct {
	uid, gid int
	extra    []int
}

// Run prepares the container and becomes the command. It returns an exit code only when it did not get that far: the
// code of an image hook that ended the start, 1 for a bad environment, 126 or 127 for a command that does not run.
func (e *Entry) Run(command []string) int {
	out := say.To(e.Stdout, "bai-runner: ")
	if len(command) == 0 {
		out.Linef("no command to run; the container needs one after its entrypoint")
		return 1
	}
	env := environment(e.Environ)
	set, err := readSettings(env)
	if err != nil {
		out.Linef("%v", err)
		return 1
	}
	if e.EUID != 0 {
		out.Linef("started as user %d instead of root: accounts stay as the image has them", e.EUID)
		set.uid = e.EUID
	}

	shell := e.Layout.Shell()
	user := e.prepare(out, set, shell)
	env.set("HOME", layout.Work)
	env.set("USER", user)
	env.set("LOGNAME", user)
	if shell != "" {
		env.set("SHELL", shell)
	}

	env, code, ended := e.imageBootstrap(out, env, set)
	if ended {
		return code
	}
	if err := e.become(set); err != nil {
		out.Linef("cannot run as user %d: %v", set.uid, err)
		return 1
	}
	e.dotfiles(out) // as the user: a symbolic link in a mounted folder must not let it write elsewhere
	return e.exec(out, command, env)
}

// prepare does what needs root and returns the name of the session's user.
func (e *Entry) prepare(out *say.Printer, set settings, shell string) string {
	if e.EUID != 0 {
		if user, ok := identity.ReadDatabase(e.Layout.At("/etc")).UserByID(set.uid); ok {
			return user.Name
		}
		return accounts.Name
	}
	user, remarks, err := accounts.Apply(e.Layout.At("/etc"), accounts.Want{
		UID: set.uid, GID: set.gid, Extra: set.extra, Home: layout.Work, Shell: shell,
	})
	for _, remark := range remarks {
		out.Linef("%s", remark)
	}
	if err != nil {
		out.Linef("user %d may have no name in this container: %v", set.uid, err)
	}
	env := environment(e.Environ)
	if err := e.linkClients(env.get("PATH")); err != nil {
		out.Linef("no ssh commands for this image: %v", err)
	}
	if keys.Mounted(e.Layout) {
		if err := keys.SystemConfig(e.Layout, env.get); err != nil {
			out.Linef("the session's hosts are unknown to ssh: %v", err)
		}
	}
	if err := e.allowSudo(); err != nil {
		out.Linef("no sudo without a password in this container: %v", err)
	}
	return user
}

// become drops root. Root sessions keep the groups that the container was started with.
func (e *Entry) become(set settings) error {
	if e.EUID != 0 || set.uid == 0 {
		return nil
	}
	groups := append([]int{set.gid}, set.extra...)
	return e.Assume(identity.Identity{UID: set.uid, GID: set.gid, Groups: append(groups, shadowGID)})
}

func (e *Entry) exec(out *say.Printer, command []string, env environment) int {
	path := env.get("PATH")
	if path == "" {
		path = layout.DefaultPath
	}
	program, ok := e.Layout.FindProgram(command[0], path)
	if !ok {
		out.Linef("cannot run %s: no such program in the image", command[0])
		return 127
	}
	err := e.Exec(program, command, env)
	out.Linef("cannot run %s: %v", command[0], err)
	return 126
}

// linkClients gives images without an SSH client our own one under its usual names.
func (e *Entry) linkClients(path string) error {
	if path == "" {
		path = layout.DefaultPath
	}
	dir := "/usr/local/bin"
	if dirs := strings.Split(path, ":"); !slices.Contains(dirs, dir) {
		for _, other := range append([]string{"/usr/bin", "/bin"}, dirs...) {
			if slices.Contains(dirs, other) && filepath.IsAbs(other) {
				dir = other
				break
			}
		}
	}
	var errs []error
	for _, name := range []string{"ssh", "scp", "sftp"} {
		if _, found := e.Layout.FindProgram(name, path); found {
			continue
		}
		link := e.Layout.At(filepath.Join(dir, name))
		if target, err := os.Readlink(link); err == nil && target == layout.RunnerBinary {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return err // the same for every name
		}
		if err := os.Symlink(layout.RunnerBinary, link); err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func readSettings(env environment) (settings, error) {
	set := settings{uid: defaultID, gid: defaultID}
	for name, id := range map[string]*int{"LOCAL_USER_ID": &set.uid, "LOCAL_GROUP_ID": &set.gid} {
		if text := strings.TrimSpace(env.get(name)); text != "" {
			n, err := parseID(text)
			if err != nil {
				return settings{}, fmt.Errorf("%s=%q is not a user or group number", name, text)
			}
			*id = n
		}
	}
	for item := range strings.SplitSeq(env.get("ADDITIONAL_GIDS"), ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		n, err := parseID(item)
		if err != nil {
			return settings{}, fmt.Errorf("ADDITIONAL_GIDS has %q, which is not a group number", item)
		}
		set.extra = append(set.extra, n)
	}
	return set, nil
}

func parseID(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, err
	}
	if n >= 1<<32-1 {
		return 0, strconv.ErrRange
	}
	return int(n), nil
}

// environment is a list of NAME=value entries, as execve takes it.
type environment []string

func (e environment) get(name string) string {
	value := ""
	for _, entry := range e {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

func (e *environment) set(name, value string) {
	*e = identity.WithVariable(*e, name, value)
}
