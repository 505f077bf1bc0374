// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"agentd/pkg/apis"
)

// maxRead is the largest file that Read returns, in bytes.
const maxRead = 4 << 20

var (
	errNotRegular = errors.New("not a regular file with a single name")
	errTooLarge   = errors.New("too large")
)

// Read returns one regular file of a scratch; ErrNotFound if it is absent.
// Anything else under that name, a file with several hard links and one of more
// than 4 MiB are ErrConflict.
func (s *Store) Read(ctx context.Context, name, path string) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := checkPath(path); err != nil {
		return nil, invalid("scratch %s: %w", name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("read %q of scratch %s: %w", path, name, err)
	}
	root, err := s.openRoot()
	if err != nil {
		return nil, err
	}
	defer closeFD(root)
	data, err := readFile(root, name+"/"+path, maxRead)
	if isAbsent(err) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("read %q of scratch %s: %w", path, name, apis.ErrNotFound)
	}
	if err != nil {
		return nil, explain("read", s.Path(name)+"/"+path, err)
	}
	return data, nil
}

// readFile reads a file of at most limit bytes below dir. It looks before it
// opens, because opening a pipe waits and opening a device acts.
func readFile(dir int, path string, limit int64) ([]byte, error) {
	fd, err := openBeneath(dir, path, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	st, err := stat(fd)
	if err != nil {
		return nil, err
	}
	if !isType(st, unix.S_IFREG) || st.Nlink > 1 {
		return nil, fmt.Errorf("%w: %w; remove it", apis.ErrConflict, errNotRegular)
	}
	in, err := reopenFile(fd)
	if err != nil {
		return nil, err
	}
	defer closeFD(in)
	// One byte more than the size says tells the end of the file without growing.
	buf := make([]byte, 0, min(st.Size, limit)+1)
	for {
		n, err := read(in, buf[len(buf):cap(buf)])
		if err != nil {
			return nil, err
		}
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return nil, fmt.Errorf("%w: %w: more than %d bytes", apis.ErrConflict, errTooLarge, limit)
		}
		if n == 0 {
			return buf, nil
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)] // it grew meanwhile
		}
	}
}
