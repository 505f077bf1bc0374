// SPDX-License-Identifier: Apache-2.0

package admintest

import (
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"sync"

	"agentd/pkg/runtime"
)

// Logs is what containers wrote, by container ID. A container that wrote
// nothing has one line that names it.
type Logs struct {
	mu      sync.Mutex
	text    map[string]string
	changed chan struct{}
}

func newLogs() *Logs { return &Logs{text: map[string]string{}, changed: make(chan struct{})} }

// Append adds to the log of a container; whoever follows it sees it.
func (l *Logs) Append(id, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text[id] += text
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Logs) get(id string) (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	text, ok := l.text[id]
	if !ok {
		text = "container " + id + " started\n"
	}
	return text, l.changed
}

// loggingContainers are containers that write logs.
type loggingContainers struct {
	runtime.Containers
	logs *Logs
}

// Logs returns what the container wrote; a follower gets more until it closes the stream.
func (c loggingContainers) Logs(ctx context.Context, id string, opt runtime.LogOptions) (io.ReadCloser, error) {
	text, _ := c.logs.get(id)
	if opt.Tail > 0 {
		lines := strings.SplitAfter(text, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		text = strings.Join(lines[max(0, len(lines)-opt.Tail):], "")
	}
	if !opt.Follow {
		return io.NopCloser(strings.NewReader(text)), nil
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	go func() {
		defer func() { _ = w.Close() }()
		whole, _ := c.logs.get(id)
		sent := len(whole)
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		for {
			now, changed := c.logs.get(id)
			if sent > len(now) { // its first line was made up
				sent = 0
			}
			if _, err := io.WriteString(w, now[sent:]); err != nil {
				return
			}
			sent = len(now)
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}()
	return closing{r, cancel}, nil
}

type closing struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close ends the stream and whoever fills it.
func (c closing) Close() error {
	c.cancel()
	return c.PipeReader.Close()
}

// Shell runs commands without a container.
type Shell struct{}

// Exec plays the commands echo, cat, env, id, pwd, stderr, size, sleep and exit.
func (Shell) Exec(ctx context.Context, id string, spec runtime.ExecSpec, st runtime.ExecStreams) (int, error) {
	cmd := spec.Cmd
	user := spec.User
	if path.Base(cmd[0]) == "su-exec" {
		user, cmd = cmd[1], cmd[2:]
	}
	var err error
	switch arg := strings.Join(cmd[1:], " "); cmd[0] {
	case "/bin/sh": // as "agentd ssh" calls it
		_, err = fmt.Fprintf(st.Stdout, "shell line %q\n", cmd[len(cmd)-1])
	case "echo":
		_, err = fmt.Fprintln(st.Stdout, arg)
	case "cat":
		if st.Stdin == nil {
			return 0, nil
		}
		_, err = io.Copy(st.Stdout, st.Stdin)
	case "env":
		_, err = fmt.Fprintln(st.Stdout, strings.Join(spec.Env, "\n"))
	case "id":
		_, err = fmt.Fprintln(st.Stdout, user, id)
	case "pwd":
		_, err = fmt.Fprintln(st.Stdout, spec.WorkingDir)
	case "stderr":
		_, err = fmt.Fprintln(st.Stderr, arg)
	case "size":
		size := spec.Size
		select {
		case size = <-st.Resize:
		case <-ctx.Done():
		}
		_, err = fmt.Fprintf(st.Stdout, "%d rows, %d columns, terminal %v\n", size.Rows, size.Cols, spec.TTY)
	case "sleep":
		<-ctx.Done()
		return 0, ctx.Err()
	case "exit":
		return strconv.Atoi(arg)
	default:
		return 127, nil
	}
	return 0, err
}
