// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
	"agentd/pkg/controller/intake"
	"agentd/pkg/runtime"
)

func TestLogs(t *testing.T) {
	d, c, ctx := start(t)
	apply(t, ctx, c, single)
	id := d.World.Containers()[0].ID
	d.Logs.Append(id, "1\n2\n3\n")
	read := func(tail int) string {
		t.Helper()
		r, err := c.Logs(ctx, "one/main1", false, tail)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := read(0); got != "1\n2\n3\n" {
		t.Errorf("log %q", got)
	}
	if got := read(2); got != "2\n3\n" {
		t.Errorf("tail %q", got)
	}

	r, err := c.Logs(ctx, "one", true, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	buf := make([]byte, 2)
	if _, err := io.ReadFull(r, buf); err != nil || string(buf) != "3\n" {
		t.Fatalf("%q, %v", buf, err)
	}
	d.Logs.Append(id, "4\n")
	if _, err := io.ReadFull(r, buf); err != nil || string(buf) != "4\n" {
		t.Fatalf("%q, %v", buf, err)
	}

	// After the end of the session the kept log is found by the same name.
	if err := c.DeleteSession(ctx, "one", wait, func(admin.Progress) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"one/main1", "one", intake.KernelID(intake.SessionID("one"), "main1")} {
		r, err := c.Logs(ctx, ref, false, 1)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); err != nil || string(b) != "4\n" {
			t.Errorf("%s: kept %q, %v", ref, b, err)
		}
		_ = r.Close()
	}
	for _, ref := range []string{"two/main1", "../../etc/passwd", "one/sub1", "a\nb"} {
		if _, err := c.Logs(ctx, ref, false, 0); !errors.Is(err, apis.ErrNotFound) {
			t.Errorf("%q: %v, want ErrNotFound", ref, err)
		}
	}
}

// run executes a command in one/main1.
func run(t *testing.T, ctx context.Context, c *admin.Client, req admin.ExecRequest, stdin io.Reader) (stdout, stderr string, code int) { //nolint:revive // t comes first in helpers
	t.Helper()
	var out, errOut bytes.Buffer
	code, err := c.Exec(ctx, "one/main1", req, runtime.ExecStreams{Stdin: stdin, Stdout: &out, Stderr: &errOut})
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), code
}

func TestExec(t *testing.T) {
	_, c, ctx := start(t)
	apply(t, ctx, c, strings.Replace(single, "slots:", "environ: {MINE: yes it is}, slots:", 1))
	if out, _, code := run(t, ctx, c, admin.ExecRequest{Cmd: []string{"echo", "hello"}}, nil); out != "hello\n" || code != 0 {
		t.Errorf("echo: %q, %d", out, code)
	}
	if _, out, _ := run(t, ctx, c, admin.ExecRequest{Cmd: []string{"stderr", "oops"}}, nil); out != "oops\n" {
		t.Errorf("stderr: %q", out)
	}
	if _, _, code := run(t, ctx, c, admin.ExecRequest{Cmd: []string{"exit", "42"}}, nil); code != 42 {
		t.Errorf("exit code %d, want 42", code)
	}
	big := strings.Repeat("0123456789abcdef", 40_000)
	if out, _, _ := run(t, ctx, c, admin.ExecRequest{Cmd: []string{"cat"}}, strings.NewReader(big)); out != big {
		t.Errorf("cat: %d bytes of %d", len(out), len(big))
	}
	out, _, _ := run(t, ctx, c, admin.ExecRequest{Cmd: []string{"env"}, Term: "xterm-256color"}, nil)
	for _, want := range []string{"MINE=yes it is\n", "HOME=/home/work\n", "TERM=xterm-256color\n", "FROM=image\n", "BACKENDAI_CLUSTER_HOST=main1\n", "PATH=/home/work/.local/bin:/bin\n"} {
		contains(t, out, want)
	}
	out, _, _ = run(t, ctx, c, admin.ExecRequest{Cmd: []string{"env"}, Term: "x\nLD_PRELOAD=evil"}, nil)
	contains(t, out, "TERM=xterm\n")
	out, _, _ = run(t, ctx, c, admin.ExecRequest{Cmd: []string{"id"}}, nil)
	contains(t, out, "1000:1000")
	out, _, _ = run(t, ctx, c, admin.ExecRequest{Cmd: []string{"id"}, Root: true}, nil)
	contains(t, out, "0:0")
	if out, _, _ = run(t, ctx, c, admin.ExecRequest{Cmd: []string{"pwd"}}, nil); out != "/home/work\n" {
		t.Errorf("pwd %q", out)
	}
}

func TestExecResize(t *testing.T) {
	_, c, ctx := start(t)
	apply(t, ctx, c, single)
	sizes := make(chan runtime.TermSize, 1)
	sizes <- runtime.TermSize{Rows: 50, Cols: 132}
	var out bytes.Buffer
	code, err := c.Exec(ctx, "one", admin.ExecRequest{Cmd: []string{"size"}, TTY: true}, runtime.ExecStreams{Stdout: &out, Stderr: &out, Resize: sizes})
	if err != nil || code != 0 || out.String() != "50 rows, 132 columns, terminal true\n" {
		t.Errorf("%q, %d, %v", out.String(), code, err)
	}
}

func TestExecRefuses(t *testing.T) {
	_, c, ctx := start(t)
	st := runtime.ExecStreams{Stdout: io.Discard, Stderr: io.Discard}
	if _, err := c.Exec(ctx, "one/main1", admin.ExecRequest{Cmd: []string{"id"}}, st); !errors.Is(err, apis.ErrNotFound) {
		t.Errorf("no such kernel: %v", err)
	}
	apply(t, ctx, c, single)
	if _, err := c.Exec(ctx, "one/main1", admin.ExecRequest{}, st); !errors.Is(err, apis.ErrInvalid) {
		t.Errorf("no command: %v", err)
	}
	if _, err := c.Exec(ctx, "one/main1", admin.ExecRequest{Cmd: []string{strings.Repeat("x", 300<<10)}}, st); !errors.Is(err, apis.ErrInvalid) {
		t.Errorf("a huge command: %v", err)
	}
}

// TestExecClientGone makes sure that a command ends with its client.
func TestExecClientGone(t *testing.T) {
	d, c, ctx := start(t)
	apply(t, ctx, c, single)
	short, cancel := context.WithCancelCause(ctx)
	pipe, feed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(short, "one", admin.ExecRequest{Cmd: []string{"cat"}}, runtime.ExecStreams{Stdin: pipe, Stdout: feedBack{cancel}, Stderr: io.Discard})
		ended <- err
	}()
	_, _ = io.WriteString(feed, "x") // its echo ends the client
	if err := <-ended; !errors.Is(err, errEcho) {
		t.Errorf("client: %v", err)
	}
	_ = feed.Close()
	_ = d // Stop, at the end of the test, waits for whatever is under way
}

var errEcho = errors.New("the command has answered")

type feedBack struct{ cancel context.CancelCauseFunc }

func (f feedBack) Write(p []byte) (int, error) {
	f.cancel(errEcho)
	return len(p), nil
}
