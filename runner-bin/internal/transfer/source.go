// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// legacy is one end of the old protocol between two scp processes: lines that announce a file, each answered by a zero
// byte, or by 1 and a message.
type legacy struct {
	in        *bufio.Reader
	out       io.Writer
	recursive bool
	preserve  bool
	// directory demands that the target is one.
	directory bool
	failed    bool
}

func newLegacy(line *scpLine, streams Streams) *legacy {
	return &legacy{
		in: bufio.NewReader(streams.Stdin), out: streams.Stdout,
		recursive: line.recursive, preserve: line.preserve, directory: line.directory,
	}
}

// errPeer means that the other end gave up or is gone: nothing more can be said to it.
var errPeer = errors.New("the other side ended the copy")

// acknowledged waits for the other end's answer.
func (l *legacy) acknowledged() error {
	code, err := l.in.ReadByte()
	if err != nil {
		return errPeer
	}
	if code == 0 {
		return nil
	}
	message, _ := l.line()
	if code == 1 {
		return fmt.Errorf("the other side says: %s", message)
	}
	return errPeer
}

// line reads up to a line break.
func (l *legacy) line() (string, error) {
	text, err := l.in.ReadSlice('\n') // bounded by the buffer
	if err != nil {
		return "", errPeer
	}
	return strings.TrimSuffix(string(text), "\n"), nil
}

func (l *legacy) send(text string) error {
	if _, err := io.WriteString(l.out, text); err != nil {
		return errPeer
	}
	return nil
}

// complain tells the other end of a failure that it is to show.
func (l *legacy) complain(name string, err error) error {
	l.failed = true
	text := strings.ReplaceAll(fmt.Sprintf("scp: %s: %v", name, err), "\n", " ")
	return l.send("\x01" + text + "\n")
}

func (l *legacy) exitCode(err error) int {
	if err != nil || l.failed {
		return 1
	}
	return 0
}

// runSource is `scp -f`: it sends the named files.
func runSource(line *scpLine, streams Streams) int {
	l := newLegacy(line, streams)
	err := l.acknowledged()
	for _, name := range line.names {
		if err != nil {
			break
		}
		err = l.sendTree(homePath(name), 0)
	}
	return l.exitCode(err)
}

// sendTree sends a file or a directory; the error is one after which nothing more can be sent.
func (l *legacy) sendTree(name string, depth int) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return l.complain(name, reason(err))
	case info.IsDir() && !l.recursive:
		return l.complain(name, errors.New("not a regular file"))
	case info.IsDir() && depth > maxDepth:
		return l.complain(name, errors.New("too many levels of directories"))
	case info.IsDir():
		return l.sendDir(name, info, depth)
	case !info.Mode().IsRegular():
		return l.complain(name, errors.New("not a regular file"))
	}
	return l.sendFile(name, info)
}

// announce sends a control line, after the times if they are to be kept, and waits for the answer. It reports whether
// the other end wants what was announced.
func (l *legacy) announce(info fs.FileInfo, line string) (bool, error) {
	if l.preserve {
		t := info.ModTime().Unix()
		if err := l.send(fmt.Sprintf("T%d 0 %d 0\n", t, t)); err != nil {
			return false, err
		}
		if err := l.acknowledged(); err != nil {
			return false, l.refused(err)
		}
	}
	if err := l.send(line); err != nil {
		return false, err
	}
	if err := l.acknowledged(); err != nil {
		return false, l.refused(err)
	}
	return true, nil
}

// refused notes that the other end did not take something; only its end is the end.
func (l *legacy) refused(err error) error {
	l.failed = true
	if errors.Is(err, errPeer) {
		return err
	}
	return nil
}

func (l *legacy) sendFile(name string, info fs.FileInfo) error {
	file, err := os.Open(name)
	if err != nil {
		return l.complain(name, reason(err))
	}
	defer file.Close()
	base := filepath.Base(name)
	if strings.Contains(base, "\n") {
		return l.complain(name, errors.New("the protocol has no names with line breaks"))
	}
	ok, err := l.announce(info, fmt.Sprintf("C%04o %d %s\n", info.Mode().Perm(), info.Size(), base))
	if err != nil || !ok {
		return err
	}
	sent, readErr := io.CopyN(l.out, file, info.Size())
	if sent < info.Size() {
		// The size was promised: the rest is filled up, and then the truth is told.
		if _, err := io.CopyN(l.out, zeroes{}, info.Size()-sent); err != nil {
			return errPeer
		}
		if readErr == nil || errors.Is(readErr, io.EOF) {
			readErr = errors.New("the file became shorter while it was sent")
		}
		err = l.complain(name, readErr)
	} else {
		err = l.send("\x00")
	}
	if err != nil {
		return err
	}
	if err := l.acknowledged(); err != nil {
		return l.refused(err)
	}
	return nil
}

func (l *legacy) sendDir(name string, info fs.FileInfo, depth int) error {
	entries, err := os.ReadDir(name)
	if err != nil {
		return l.complain(name, reason(err))
	}
	ok, err := l.announce(info, fmt.Sprintf("D%04o 0 %s\n", info.Mode().Perm(), filepath.Base(name)))
	if err != nil || !ok {
		return err
	}
	for _, entry := range entries {
		if err := l.sendTree(filepath.Join(name, entry.Name()), depth+1); err != nil {
			return err
		}
	}
	if err := l.send("E\n"); err != nil {
		return err
	}
	if err := l.acknowledged(); err != nil {
		return l.refused(err)
	}
	return nil
}

// zeroes is an endless stream of zero bytes.
type zeroes struct{}

// Read implements io.Reader.
func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// reason drops the path from an error whose message names it already.
func reason(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
