// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ulimitCeilings tells how far the ulimits of a container may be raised: hard
// limits by ulimit name, -1 for unlimited; nil when there is no ceiling or none
// can be known. The engine's API does not say; its process does: without
// CAP_SYS_RESOURCE (an engine inside a container, say) runc cannot raise a hard
// limit, and the container does not start.
func (e *Engine) ulimitCeilings(ctx context.Context) map[string]int64 {
	socket, ok := strings.CutPrefix(e.host, "unix://")
	if !ok {
		return nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }()
	pid, err := peer(conn)
	if err != nil || pid == 0 {
		return nil // it lives in another PID namespace
	}
	if raises, err := mayRaiseLimits(pid); err != nil || raises {
		return nil
	}
	ceilings, err := hardLimits(pid)
	if err != nil {
		return nil
	}
	return ceilings
}

// peer is the process that listens on the other end.
func peer(conn net.Conn) (int, error) {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%s is no unix socket", conn.RemoteAddr())
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return int(cred.Pid), nil
}

// mayRaiseLimits tells whether the process has CAP_SYS_RESOURCE.
func mayRaiseLimits(pid int) (bool, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(b)) {
		if digits, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(digits), 16, 64)
			return caps&(1<<unix.CAP_SYS_RESOURCE) != 0, err
		}
	}
	return false, fmt.Errorf("process %d: its status has no line CapEff", pid)
}

// ulimitNames are the engine's names of what /proc calls by a phrase.
var ulimitNames = map[string]string{
	"Max cpu time": "cpu", "Max file size": "fsize", "Max data size": "data", "Max stack size": "stack",
	"Max core file size": "core", "Max resident set": "rss", "Max processes": "nproc", "Max open files": "nofile",
	"Max locked memory": "memlock", "Max file locks": "locks", "Max pending signals": "sigpending",
	"Max msgqueue size": "msgqueue", "Max nice priority": "nice", "Max realtime priority": "rtprio", "Max realtime timeout": "rttime",
}

var columns = regexp.MustCompile(` {2,}`)

// hardLimits reads the hard limits of a process.
func hardLimits(pid int) (map[string]int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out := map[string]int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		cells := columns.Split(strings.TrimSpace(lines.Text()), -1)
		if len(cells) < 3 || ulimitNames[cells[0]] == "" {
			continue
		}
		hard := int64(-1)
		if cells[2] != "unlimited" {
			if hard, err = strconv.ParseInt(cells[2], 10, 64); err != nil {
				return nil, fmt.Errorf("limits of process %d: %w", pid, err)
			}
		}
		out[ulimitNames[cells[0]]] = hard
	}
	return out, lines.Err()
}
