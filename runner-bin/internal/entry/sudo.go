// SPDX-License-Identifier: Apache-2.0

package entry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"agentd/runner-bin/internal/layout"
)

// allowSudo puts the agent's rule where the image's sudo reads it. A session without one leaves the image's own rules
// alone.
func (e *Entry) allowSudo() error {
	rule, err := os.ReadFile(e.Layout.At(layout.Sudoers))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	path := e.Layout.At(layout.SudoersDropIn)
	if err := os.Mkdir(filepath.Dir(path), 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	temp := path + ".new" // sudo reads no files with a dot in their name
	_ = os.Remove(temp)   // left by an earlier start that was cut short
	if err := install(temp, path, rule); err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("install %s: %w", layout.SudoersDropIn, err)
	}
	return nil
}

// install writes a file that is complete, and as sudo demands it, before it has its name.
func install(temp, path string, text []byte) error {
	const mode = 0o440
	if err := os.WriteFile(temp, text, mode); err != nil {
		return err
	}
	// A setgid directory or the umask may have changed them.
	if err := errors.Join(os.Chown(temp, os.Geteuid(), os.Getegid()), os.Chmod(temp, mode)); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
