// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentd/pkg/apis"
)

const (
	// DefaultKeptBytes is how much of a log is kept when nothing else is said:
	// the max-length of container-logs (26.8).
	DefaultKeptBytes = 10 << 20
	keptSuffix       = ".log"
	partSuffix       = ".part"
)

// KeptLogs keeps the logs of ended kernels as files in one directory, one for
// each kernel. It is a [LogKeeper].
type KeptLogs struct {
	dir string
	max int64
}

var _ LogKeeper = (*KeptLogs)(nil)

// NewKeptLogs uses the directory, which it makes if need be. Of every log at
// most maxBytes are kept, the last ones; 0 is [DefaultKeptBytes].
func NewKeptLogs(dir string, maxBytes int64) (*KeptLogs, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory for kept logs: %w", err)
	}
	return &KeptLogs{dir: dir, max: cmp.Or(maxBytes, DefaultKeptBytes)}, nil
}

// Save keeps the tail of r under the kernel's ID, in place of what was kept
// before. It needs no memory to speak of, whatever the size of the log, and at
// most twice the kept size on disk. After an error, what was kept before is
// still there.
func (k *KeptLogs) Save(ctx context.Context, kernelID string, r io.Reader) error {
	path, err := k.path(kernelID)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(k.dir, kernelID+".*"+partSuffix) // 0600
	if err != nil {
		return fmt.Errorf("keep the log of kernel %s: %w", kernelID, err)
	}
	err = errors.Join(k.copyTail(ctx, part, r), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), path)
	}
	if err != nil {
		_ = os.Remove(part.Name())
		return fmt.Errorf("keep the log of kernel %s: %w", kernelID, err)
	}
	return nil
}

// copyTail writes the last max bytes of r to f. It writes all of r round and
// round a file of that size and puts the two halves in order at the end.
func (k *KeptLogs) copyTail(ctx context.Context, f *os.File, r io.Reader) error {
	buf := make([]byte, 64<<10)
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, readErr := r.Read(buf)
		for data := buf[:n]; len(data) > 0; {
			at := total % k.max
			fit := data[:min(int64(len(data)), k.max-at)]
			if _, err := f.WriteAt(fit, at); err != nil {
				return err
			}
			total += int64(len(fit))
			data = data[len(fit):]
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return readErr
		}
	}
	if total <= k.max || total%k.max == 0 {
		return nil
	}
	return k.straighten(f, total%k.max)
}

// straighten turns a full ring whose oldest byte is at start into a plain file.
func (k *KeptLogs) straighten(f *os.File, start int64) error {
	in, err := os.Open(f.Name())
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.CreateTemp(k.dir, filepath.Base(f.Name())+".*"+partSuffix)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.MultiReader(io.NewSectionReader(in, start, k.max-start), io.NewSectionReader(in, 0, start)))
	if err = errors.Join(err, out.Close()); err == nil {
		// The open file is the old one; its name is the new one from here on.
		err = os.Rename(out.Name(), f.Name())
	}
	if err != nil {
		_ = os.Remove(out.Name())
	}
	return err
}

// Open returns the kept log; apis.ErrNotFound if there is none.
func (k *KeptLogs) Open(kernelID string) (io.ReadCloser, error) {
	path, err := k.path(kernelID)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("kept log of kernel %s: %w", kernelID, apis.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("kept log of kernel %s: %w", kernelID, err)
	}
	return f, nil
}

// Prune removes logs older than maxAge and the oldest beyond maxFiles; 0 is no
// limit. What a crash left half written goes after maxAge, too.
func (k *KeptLogs) Prune(maxFiles int, maxAge time.Duration) error {
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return fmt.Errorf("kept logs: %w", err)
	}
	type kept struct {
		name string
		at   time.Time
	}
	var logs []kept
	var failed []error
	remove := func(name string) {
		if err := os.Remove(filepath.Join(k.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, fmt.Errorf("kept logs: %w", err))
		}
	}
	for _, e := range entries {
		isLog := strings.HasSuffix(e.Name(), keptSuffix)
		if !e.Type().IsRegular() || !isLog && !strings.HasSuffix(e.Name(), partSuffix) {
			continue
		}
		info, err := e.Info()
		if err != nil { // removed meanwhile
			continue
		}
		if maxAge > 0 && time.Since(info.ModTime()) > maxAge {
			remove(e.Name())
		} else if isLog {
			logs = append(logs, kept{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(logs, func(a, b kept) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.name, b.name)) })
	if maxFiles > 0 && len(logs) > maxFiles {
		for _, l := range logs[maxFiles:] {
			remove(l.name)
		}
	}
	return errors.Join(failed...)
}

// path is the file of a kernel. Kernel IDs come from outside.
func (k *KeptLogs) path(kernelID string) (string, error) {
	if kernelID == "" || kernelID[0] == '.' || strings.ContainsAny(kernelID, "/\\\x00*") {
		return "", fmt.Errorf("kept log: kernel ID %q cannot be a file's name: %w", kernelID, apis.ErrInvalid)
	}
	return filepath.Join(k.dir, kernelID+keptSuffix), nil
}
