// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/sftp"
)

// errBye ends the session.
var errBye = errors.New("bye")

// command is one command of the sftp shell.
type command struct {
	// flags are the letters it knows.
	flags string
	// least and most count its arguments.
	least, most int
	run         func(s *shell, flags string, args []string) error
	help        string
}

// many is the number of arguments of commands that take any.
const many = 1 << 16

// commands are all commands by name.
func commands() map[string]command {
	bye := command{run: func(*shell, string, []string) error { return errBye }, help: "end"}
	list := command{flags: "1alhnrSt", most: many, run: (*shell).list, help: "[-1al] [path]...  list files"}
	get := command{flags: "afpPrR", least: 1, most: 2, run: (*shell).get, help: "[-pr] remote [local]  download"}
	put := command{flags: "afpPrR", least: 1, most: 2, run: (*shell).put, help: "[-pr] local [remote]  upload"}
	help := command{run: (*shell).help, most: many, help: "show this"}
	link := command{flags: "s", least: 2, most: 2, run: (*shell).link, help: "[-s] old new  link"}
	return map[string]command{
		"exit": bye, "quit": bye, "bye": bye,
		"help": help, "?": help,
		"ls": list, "dir": list,
		"get": get, "mget": get,
		"put": put, "mput": put,
		"ln": link, "symlink": {least: 2, most: 2, run: (*shell).symlink, help: "old new  link symbolically"},
		"cd":     {most: 1, run: (*shell).changeDir, help: "[path]  change the remote directory"},
		"lcd":    {most: 1, run: (*shell).changeLocalDir, help: "[path]  change the local directory"},
		"pwd":    {run: (*shell).showDir, help: "show the remote directory"},
		"lpwd":   {run: (*shell).showLocalDir, help: "show the local directory"},
		"mkdir":  {flags: "p", least: 1, most: many, run: (*shell).makeDir, help: "[-p] path...  make directories"},
		"lmkdir": {least: 1, most: many, run: (*shell).makeLocalDir, help: "path...  make local directories"},
		"rm":     {least: 1, most: many, run: (*shell).remove, help: "path...  remove files"},
		"rmdir":  {least: 1, most: many, run: (*shell).removeDir, help: "path...  remove empty directories"},
		"rename": {least: 2, most: 2, run: (*shell).rename, help: "old new  rename"},
		"chmod":  {flags: "h", least: 2, most: many, run: (*shell).changeMode, help: "mode path...  change permissions"},
	}
}

// do carries out one command.
func (s *shell) do(words []string) error {
	name := strings.ToLower(words[0])
	c, ok := commands()[name]
	if !ok {
		return fmt.Errorf("unknown command %q; try help", words[0])
	}
	flags, args := "", words[1:]
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		word := args[0][1:]
		args = args[1:]
		if word == "-" {
			break
		}
		if unknown := strings.Trim(word, c.flags); unknown != "" {
			return fmt.Errorf("%s: unknown option -%s", name, unknown)
		}
		flags += word
	}
	if len(args) < c.least || len(args) > c.most {
		return fmt.Errorf("usage: %s %s", name, c.help)
	}
	return c.run(s, flags, args)
}

func (s *shell) help(string, []string) error {
	all := commands()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s.out.Linef("%s %s", name, all[name].help)
	}
	return nil
}

// each carries something out for every remote file that the patterns name.
func (s *shell) each(patterns []string, do func(name string) error) error {
	for _, pattern := range patterns {
		names, err := expand(s.remote, s.remotePath(pattern))
		if err != nil {
			return fmt.Errorf("%s: %w", pattern, err)
		}
		for _, name := range names {
			if err := do(name); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func (s *shell) list(flags string, args []string) error {
	if len(args) == 0 {
		args = []string{"."}
	}
	show := func(info fs.FileInfo, name string) {
		if !strings.Contains(flags, "l") {
			s.out.Linef("%s", name)
			return
		}
		owner, group := "?", "?"
		if stat, ok := info.Sys().(*sftp.FileStat); ok {
			owner, group = strconv.Itoa(int(stat.UID)), strconv.Itoa(int(stat.GID))
		}
		s.out.Linef("%s %-8s %-8s %12d %s %s", info.Mode(), owner, group, info.Size(),
			info.ModTime().UTC().Format(time.DateTime), name)
	}
	for _, arg := range args {
		relative := arg != "." && !path.IsAbs(arg)
		err := s.each([]string{arg}, func(name string) error {
			info, err := s.remote.Stat(name)
			if err != nil {
				return err
			}
			shown := name
			if relative {
				shown = strings.TrimPrefix(name, strings.TrimSuffix(s.dir, "/")+"/")
			}
			if !info.IsDir() {
				show(info, shown)
				return nil
			}
			entries, err := s.remote.ReadDir(name)
			if err != nil {
				return err
			}
			slices.SortFunc(entries, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
			for _, entry := range entries {
				if strings.HasPrefix(entry.Name(), ".") && !strings.Contains(flags, "a") {
					continue
				}
				if arg == "." {
					show(entry, entry.Name())
				} else {
					show(entry, path.Join(shown, entry.Name()))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *shell) get(flags string, args []string) error {
	target := "."
	if len(args) == 2 {
		target = args[1]
	}
	return s.transfer(s.remote, local{}, s.remotePath(args[0]), s.localPath(target), flags)
}

func (s *shell) put(flags string, args []string) error {
	target := "."
	if len(args) == 2 {
		target = args[1]
	}
	return s.transfer(local{}, s.remote, s.localPath(args[0]), s.remotePath(target), flags)
}

func (s *shell) transfer(from, to side, source, target, flags string) error {
	sources, err := expand(from, source)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	into := isDir(to, target)
	if len(sources) > 1 && !into {
		return fmt.Errorf("%s: not a directory", target)
	}
	var errs []error
	c := &copier{
		from: from, to: to,
		recursive: s.recursive || strings.ContainsAny(flags, "rR"),
		preserve:  s.preserve || strings.ContainsAny(flags, "pP"),
		fail:      func(name string, err error) { errs = append(errs, fmt.Errorf("%s: %w", name, err)) },
	}
	for _, source := range sources {
		if into {
			c.copy(source, below(target, source))
		} else {
			c.copy(source, target)
		}
	}
	return errors.Join(errs...)
}

func (s *shell) changeDir(_ string, args []string) error {
	if len(args) == 0 {
		args = []string{"."}
	}
	name := s.remotePath(args[0])
	info, err := s.remote.Stat(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: not a directory", name)
	}
	s.dir = name
	return nil
}

func (s *shell) changeLocalDir(_ string, args []string) error {
	name := ""
	if len(args) > 0 {
		name = s.localPath(args[0])
		if !isDir(local{}, name) {
			return fmt.Errorf("%s: not a directory", name)
		}
	}
	s.localDir = name
	return nil
}

func (s *shell) showDir(string, []string) error {
	s.out.Linef("Remote working directory: %s", s.dir)
	return nil
}

func (s *shell) showLocalDir(string, []string) error {
	dir := s.localDir
	if !path.IsAbs(dir) {
		own, err := os.Getwd()
		if err != nil {
			return err
		}
		dir = path.Join(own, dir)
	}
	s.out.Linef("Local working directory: %s", dir)
	return nil
}

func (s *shell) makeDir(flags string, args []string) error {
	for _, arg := range args {
		name := s.remotePath(arg)
		var err error
		if strings.Contains(flags, "p") {
			err = s.remote.client.MkdirAll(name)
		} else {
			err = s.remote.client.Mkdir(name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (s *shell) makeLocalDir(_ string, args []string) error {
	for _, arg := range args {
		if err := os.Mkdir(s.localPath(arg), 0o777); err != nil {
			return err
		}
	}
	return nil
}

func (s *shell) remove(_ string, args []string) error {
	return s.each(args, func(name string) error {
		if info, err := s.remote.client.Lstat(name); err == nil && info.IsDir() {
			return errors.New("is a directory; use rmdir")
		}
		return s.remote.client.Remove(name)
	})
}

func (s *shell) removeDir(_ string, args []string) error {
	return s.each(args, s.remote.client.RemoveDirectory)
}

func (s *shell) rename(_ string, args []string) error {
	from, to := s.remotePath(args[0]), s.remotePath(args[1])
	rename := s.remote.client.Rename
	if _, ok := s.remote.client.HasExtension("posix-rename@openssh.com"); ok {
		rename = s.remote.client.PosixRename // replaces an existing file, as people expect
	}
	if err := rename(from, to); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

func (s *shell) link(flags string, args []string) error {
	if strings.Contains(flags, "s") {
		return s.symlink("", args)
	}
	return s.remote.client.Link(s.remotePath(args[0]), s.remotePath(args[1]))
}

func (s *shell) symlink(_ string, args []string) error {
	return s.remote.client.Symlink(args[0], s.remotePath(args[1]))
}

func (s *shell) changeMode(_ string, args []string) error {
	mode, err := strconv.ParseUint(args[0], 8, 12)
	if err != nil {
		return fmt.Errorf("%q is not an octal number", args[0])
	}
	perm := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			perm |= flag
		}
	}
	return s.each(args[1:], func(name string) error { return s.remote.Chmod(name, perm) })
}
