// SPDX-License-Identifier: Apache-2.0

package entry

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"agentd/runner-bin/internal/layout"
	"agentd/runner-bin/internal/say"
)

// dotfile is one entry of dotfiles.json.
type dotfile struct {
	Path string `json:"path"`
	Data string `json:"data"`
	Perm string `json:"perm"`
}

// dotfiles writes the user's dotfiles below the home directory. Each failure is a line in the log and no more: a kernel
// without its .vimrc is better than none.
func (e *Entry) dotfiles(out *say.Printer) {
	data, err := os.ReadFile(e.Layout.At(layout.Dotfiles))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		out.Linef("dotfiles: %v", err)
		return
	}
	var files []dotfile
	if err := json.Unmarshal(data, &files); err != nil {
		out.Linef("dotfiles: %s is damaged: %v", layout.Dotfiles, err)
		return
	}
	home, err := os.OpenRoot(e.Layout.At(layout.Work))
	if err != nil {
		out.Linef("dotfiles: %v", err)
		return
	}
	defer home.Close()
	for _, file := range files {
		if err := file.write(home); err != nil {
			out.Linef("dotfile %s: %v", file.Path, err)
		}
	}
}

func (f dotfile) write(home *os.Root) error {
	name := f.Path
	if path.IsAbs(name) {
		below, ok := strings.CutPrefix(path.Clean(name), layout.Work+"/")
		if !ok {
			return errors.New("lies outside " + layout.Work)
		}
		name = below
	}
	perm := fs.FileMode(0o644)
	if f.Perm != "" {
		n, err := strconv.ParseUint(f.Perm, 8, 12)
		if err != nil {
			return errors.New("permission " + strconv.Quote(f.Perm) + " is not an octal number")
		}
		perm = fs.FileMode(n) & fs.ModePerm
	}
	if dir := path.Dir(name); dir != "." {
		if err := home.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	data := f.Data
	if !strings.HasSuffix(data, "\n") {
		data += "\n"
	}
	if err := home.WriteFile(name, []byte(data), perm); err != nil {
		return err
	}
	return home.Chmod(name, perm) // an older file keeps its mode otherwise
}
