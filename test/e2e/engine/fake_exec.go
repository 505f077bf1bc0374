// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// exec is a command in a container. The fake knows four: "cat" copies its
// input, "echo WORDS" and "complain WORDS" write to stdout and stderr, "exit N"
// ends with a code. "wait" lasts until its input ends.
type exec struct {
	id      string
	config  execConfig
	running bool
	code    int
	sizes   []string
}

type execConfig struct {
	Cmd                                          []string
	Env                                          []string
	User, WorkingDir                             string
	Tty, AttachStdin, AttachStdout, AttachStderr bool
}

// ExecSizes are the terminal sizes that the last command was told, "ROWSxCOLS".
func (f *Fake) ExecSizes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.execs {
		if len(x.sizes) > 0 {
			return x.sizes
		}
	}
	return nil
}

func (f *Fake) createExec(w http.ResponseWriter, r *http.Request) error {
	var cfg execConfig
	if err := json.Unmarshal(bodyOf(r), &cfg); err != nil {
		return fail(http.StatusBadRequest, "invalid JSON: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.mustFind(r)
	if err != nil {
		return err
	}
	if c.state != "running" {
		return fail(http.StatusConflict, "Container %s is not running", c.id)
	}
	x := &exec{id: f.newID("exec"), config: cfg}
	f.execs[x.id] = x
	return answer(w, http.StatusCreated, object{"Id": x.id})
}

func (f *Fake) mustExec(r *http.Request) (*exec, error) {
	if x := f.execs[r.PathValue("id")]; x != nil {
		return x, nil
	}
	return nil, fail(http.StatusNotFound, "No such exec instance: %s", r.PathValue("id"))
}

func (f *Fake) inspectExec(w http.ResponseWriter, r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	x, err := f.mustExec(r)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, object{"ID": x.id, "Running": x.running, "ExitCode": x.code})
}

func (f *Fake) resizeExec(w http.ResponseWriter, r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	x, err := f.mustExec(r)
	if err != nil {
		return err
	}
	x.sizes = append(x.sizes, r.URL.Query().Get("h")+"x"+r.URL.Query().Get("w"))
	w.WriteHeader(http.StatusOK)
	return nil
}

func (f *Fake) startExec(w http.ResponseWriter, r *http.Request) error {
	bodyOf(r)
	f.mu.Lock()
	x, err := f.mustExec(r)
	if err == nil {
		x.running = true
	}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(rw, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	_ = rw.Flush()
	code := x.run(rw)
	_ = rw.Flush()
	// The engine, too, knows of the end a moment after the client.
	f.mu.Lock()
	defer f.mu.Unlock()
	x.running, x.code = false, code
	return nil
}

func (x *exec) run(rw *bufio.ReadWriter) int {
	write := func(stream byte, p []byte) {
		if !x.config.Tty {
			p = frame(stream, p)
		}
		_, _ = rw.Write(p)
		_ = rw.Flush()
	}
	words := strings.Join(x.config.Cmd[1:], " ")
	switch x.config.Cmd[0] {
	case "cat":
		buf := make([]byte, 4096)
		for {
			n, err := rw.Read(buf)
			write(1, buf[:n])
			if err != nil {
				return 0
			}
		}
	case "wait":
		_, _ = io.Copy(io.Discard, rw)
		return 0
	case "echo":
		write(1, []byte(words+"\n"))
		return 0
	case "complain":
		write(2, []byte(words+"\n"))
		return 1
	case "exit":
		code, err := strconv.Atoi(words)
		if err != nil {
			return 2
		}
		return code
	}
	write(1, fmt.Appendf(nil, "OCI runtime exec failed: exec: %q: executable file not found in $PATH", x.config.Cmd[0]))
	return 127
}
