// SPDX-License-Identifier: Apache-2.0

package scratch

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// mountsBelow returns the mount points at or below what fd holds. It is there to
// refuse before anything is removed; that no mount is ever crossed is seen to by
// the system calls themselves.
func mountsBelow(fd int) ([]string, error) {
	dir, err := os.Readlink(procPath(fd))
	if err != nil {
		return nil, err
	}
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMounts(bytes.NewReader(info), dir)
}

// parseMounts picks the mount points at or below dir from a mountinfo file.
func parseMounts(r io.Reader, dir string) ([]string, error) {
	var out []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			return nil, fmt.Errorf("mountinfo: line of %d fields", len(fields))
		}
		if p := unescape(fields[4]); p == dir || strings.HasPrefix(p, dir+"/") {
			out = append(out, p)
		}
	}
	return out, lines.Err()
}

// unescape undoes the octal escapes of mountinfo (space, tab, newline, backslash).
func unescape(s string) string {
	var b strings.Builder
	for s != "" {
		if s[0] == '\\' && len(s) >= 4 {
			if c, err := strconv.ParseUint(s[1:4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				s = s[4:]
				continue
			}
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}
