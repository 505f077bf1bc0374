// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// runSink is `scp -t`: it receives files into the named target.
func runSink(line *scpLine, streams Streams) int {
	l := newLegacy(line, streams)
	if len(line.names) != 1 {
		return l.exitCode(l.complain("target", errors.New("there must be exactly one")))
	}
	target := homePath(line.names[0])
	if l.directory && !isDir(local{}, target) {
		return l.exitCode(l.complain(target, errors.New("not a directory")))
	}
	return l.exitCode(l.receive(target, 0))
}

// times are those of the next file.
type times struct {
	accessed, modified time.Time
	set                bool
}

// receive takes files into the target until the other end has no more, or leaves the directory.
func (l *legacy) receive(target string, depth int) error {
	if err := l.send("\x00"); err != nil {
		return err
	}
	var when times
	for {
		kind, err := l.in.ReadByte()
		if errors.Is(err, io.EOF) && depth == 0 {
			return nil
		}
		if err != nil {
			return errPeer
		}
		line, err := l.line()
		if err != nil {
			return err
		}
		switch kind {
		case 'T':
			if when, err = parseTimes(line); err != nil {
				return l.giveUp(err)
			}
			err = l.send("\x00")
		case 'E':
			if depth == 0 {
				return l.giveUp(errors.New("unexpected end of a directory"))
			}
			return l.send("\x00")
		case 'C', 'D':
			var item announced
			if item, err = parseAnnounced(kind, line); err != nil {
				return l.giveUp(err)
			}
			name := target
			if isDir(local{}, target) {
				name = filepath.Join(target, item.name)
			}
			if item.dir {
				err = l.receiveDir(name, item, when, depth)
			} else {
				err = l.receiveFile(name, item, when)
			}
			when = times{}
		case 1:
			l.failed = true // the other end shows it itself
		case 2:
			l.failed = true
			return errPeer
		default:
			return l.giveUp(fmt.Errorf("unexpected control line %q", string(kind)+line))
		}
		if err != nil {
			return err
		}
	}
}

// giveUp ends the copy with a message.
func (l *legacy) giveUp(err error) error {
	l.failed = true
	_ = l.send("\x02scp: " + err.Error() + "\n")
	return err
}

// announced is a control line about a file or directory.
type announced struct {
	dir  bool
	perm fs.FileMode
	size int64
	name string
}

func parseAnnounced(kind byte, line string) (announced, error) {
	fields := strings.SplitN(line, " ", 3)
	bad := fmt.Errorf("bad control line %q", string(kind)+line)
	if len(fields) != 3 {
		return announced{}, bad
	}
	perm, errPerm := strconv.ParseUint(fields[0], 8, 12)
	size, errSize := strconv.ParseInt(fields[1], 10, 64)
	if errPerm != nil || errSize != nil || size < 0 {
		return announced{}, bad
	}
	name := fields[2]
	if name == "" || name == ".." || strings.Contains(name, "/") || (name == "." && kind == 'C') {
		return announced{}, fmt.Errorf("unexpected file name %q", name)
	}
	return announced{dir: kind == 'D', perm: fs.FileMode(perm) & fs.ModePerm, size: size, name: name}, nil
}

func parseTimes(line string) (times, error) {
	var modified, modifiedMicro, accessed, accessedMicro int64
	if _, err := fmt.Sscanf(line, "%d %d %d %d", &modified, &modifiedMicro, &accessed, &accessedMicro); err != nil {
		return times{}, fmt.Errorf("bad control line %q", "T"+line)
	}
	return times{
		accessed: time.Unix(accessed, accessedMicro*1000),
		modified: time.Unix(modified, modifiedMicro*1000),
		set:      true,
	}, nil
}

func (l *legacy) receiveDir(name string, item announced, when times, depth int) error {
	if !l.recursive {
		return l.giveUp(errors.New("received a directory without -r"))
	}
	if depth > maxDepth {
		return l.giveUp(errors.New("too many levels of directories"))
	}
	made := false
	if !isDir(local{}, name) {
		if err := os.Mkdir(name, item.perm|0o700); err != nil {
			return l.giveUp(err)
		}
		made = true
	}
	if err := l.receive(name, depth+1); err != nil {
		return err
	}
	if made || l.preserve {
		l.keep(name, item, when)
	}
	return nil
}

// keep sets permissions and times where asked to; what fails is only noted, the data is there.
func (l *legacy) keep(name string, item announced, when times) {
	if !l.preserve {
		return
	}
	if os.Chmod(name, item.perm) != nil {
		l.failed = true
	}
	if when.set && os.Chtimes(name, when.accessed, when.modified) != nil {
		l.failed = true
	}
}

// receiveFile takes exactly the bytes announced, whatever happens to the file, so that the two ends stay in step.
func (l *legacy) receiveFile(name string, item announced, when times) error {
	file, fileErr := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, item.perm)
	if fileErr != nil {
		return l.complain(name, reason(fileErr)) // the other end then sends no data
	}
	if err := l.send("\x00"); err != nil {
		return errors.Join(err, file.Close())
	}
	data := &io.LimitedReader{R: l.in, N: item.size}
	_, fileErr = io.Copy(file, data)
	_, _ = io.Copy(io.Discard, data)
	if data.N > 0 {
		return errors.Join(errPeer, file.Close())
	}
	fileErr = errors.Join(fileErr, file.Close())
	if err := l.acknowledged(); err != nil {
		l.failed = true
		if errors.Is(err, errPeer) {
			return err
		}
	}
	if fileErr != nil {
		return l.complain(name, reason(fileErr))
	}
	l.keep(name, item, when)
	return l.send("\x00")
}
