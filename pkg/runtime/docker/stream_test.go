// SPDX-License-Identifier: Apache-2.0

package docker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/docker"
	"agentd/test/e2e/engine"
)

// eventually waits for what other goroutines bring about.
func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("it did not come about within 10 s")
		}
	}
}

// wantWords fails unless the error says each of the words.
func wantWords(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v does not say %q", err, w)
		}
	}
}

// watching runs Watch and returns its events and its end.
func watching(t *testing.T, e *docker.Engine, since time.Time) (<-chan runtime.Event, <-chan error) {
	t.Helper()
	events, done, ready := make(chan runtime.Event, 100), make(chan error, 1), make(chan struct{})
	go func() {
		done <- e.Watch(t.Context(), since, func() { close(ready) }, func(ev runtime.Event) { events <- ev })
	}()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("watch ended: %v", err)
	}
	return events, done
}

func actions(events <-chan runtime.Event, n int) []string {
	var out []string
	for range n {
		ev := <-events
		out = append(out, ev.KernelID[len(ev.KernelID)-1:]+" "+ev.Action)
	}
	return out
}

func TestWatch(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		before := time.Now()
		id := create(t, e, spec())
		events, done := watching(t, e, before)
		other := spec()
		other.EngineName = "other"
		create(t, open(t, fake.Host(), func(o *docker.Options) { o.AgentID = "i-other" }), other)
		fake.Inject(`{"Type":"container","Action":"die"}`)
		fake.Inject(`{"Type":"unheard-of","Action":"x","Actor":{"ID":"1"}}`)
		fake.Exit(name, 1)
		if err := e.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"1 create", "1 start", "1 die", "1 destroy"}, actions(events, 4)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		fake.Inject("this is no JSON")
		wantClass(t, <-done, apis.ErrUnavailable, "watch events")
	})
}

func TestWatchEndsWithTheEngine(t *testing.T) {
	fake := engine.NewFake(t)
	e := open(t, fake.Host())
	_, done := watching(t, e, time.Time{})
	fake.Down()
	<-done // with or without an error: either way it is over
	notReady := func() { t.Error("ready without an engine") }
	err := e.Watch(t.Context(), time.Time{}, notReady, func(runtime.Event) {})
	wantClass(t, err, apis.ErrUnavailable, fake.Socket())
	fake.Up()
	fake.Add(engine.Rule{Path: "/events", Status: 500, Body: `{"message":"boom"}`})
	err = e.Watch(t.Context(), time.Time{}, notReady, func(runtime.Event) {})
	wantClass(t, err, apis.ErrUnavailable, "boom")
}

func TestWatchHonoursContext(t *testing.T) {
	fake := engine.NewFake(t)
	e := open(t, fake.Host())
	ctx, cancel := context.WithCancel(t.Context())
	err := e.Watch(ctx, time.Time{}, cancel, func(runtime.Event) {})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestLogs(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		framed := open(t, fake.Host(), func(o *docker.Options) {
			o.Overrides = []docker.Override{{Path: "x", JSON: []byte(`{"Tty":false}`)}}
		})
		for _, maker := range []*docker.Engine{e, framed} {
			id := create(t, maker, spec())
			fake.Print(name, "one\r\ntwo\r\n")
			if got := readLog(t, e, id, runtime.LogOptions{}); got != "one\r\ntwo\r\n" {
				t.Errorf("log %q", got)
			}
			if got := readLog(t, e, id, runtime.LogOptions{Tail: 1}); got != "two\r\n" {
				t.Errorf("last line %q", got)
			}
			follow, err := e.Logs(t.Context(), id, runtime.LogOptions{Follow: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(follow, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			fake.Print(name, "three")
			fake.Exit(name, 0)
			rest, err := io.ReadAll(follow)
			if string(rest) != "three" || err != nil {
				t.Errorf("followed %q, error %v", rest, err)
			}
			if err := follow.Close(); err != nil {
				t.Error(err)
			}
			if err := e.Remove(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		_, err := e.Logs(t.Context(), "none", runtime.LogOptions{})
		wantClass(t, err, apis.ErrNotFound)
	})
}

func readLog(t *testing.T, e *docker.Engine, id string, opt runtime.LogOptions) string {
	t.Helper()
	r, err := e.Logs(t.Context(), id, opt)
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

func TestLogsThatStall(t *testing.T) {
	fake := engine.NewFake(t)
	fake.AddImage(imgRef, "amd64", nil, nil)
	id := create(t, open(t, fake.Host()), spec())
	e := open(t, fake.Host(), func(o *docker.Options) { o.CallTimeout = time.Second })
	fake.Print(name, "x")
	held := fake.Add(engine.Rule{Path: "/logs", Hold: true})
	_, err := e.Logs(t.Context(), id, runtime.LogOptions{})
	wantClass(t, err, apis.ErrUnavailable, "no answer in time")
	held.Remove()

	hole := fake.Add(engine.Rule{Path: "/logs", Blackhole: true})
	r, err := e.Logs(t.Context(), id, runtime.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(r)
	wantClass(t, err, apis.ErrUnavailable, "not complete in time")
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	hole.Remove()

	// Closing ends a stream that would go on.
	r, err = e.Logs(t.Context(), id, runtime.LogOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, func() bool { return fake.Open("/logs") == 0 })
}

func TestExec(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		id := create(t, e, spec())
		for _, tc := range []struct {
			cmd      []string
			in       string
			tty      bool
			out, err string
			code     int
		}{
			{cmd: []string{"cat"}, in: "hello\n", out: "hello\n"},
			{cmd: []string{"cat"}, in: "hello\n", out: "hello\n", tty: true},
			{cmd: []string{"echo", "a", "b"}, out: "a b\n"},
			{cmd: []string{"complain", "c"}, err: "c\n", code: 1},
			{cmd: []string{"complain", "c"}, out: "c\n", code: 1, tty: true},
			{cmd: []string{"exit", "42"}, code: 42},
		} {
			var stdout, stderr bytes.Buffer
			streams := runtime.ExecStreams{Stdout: &stdout, Stderr: &stderr}
			if tc.in != "" {
				streams.Stdin = strings.NewReader(tc.in)
			}
			code, err := e.Exec(t.Context(), id, runtime.ExecSpec{Cmd: tc.cmd, TTY: tc.tty}, streams)
			if err != nil || code != tc.code || stdout.String() != tc.out || stderr.String() != tc.err {
				t.Errorf("%v: code %d, error %v, stdout %q, stderr %q", tc.cmd, code, err, &stdout, &stderr)
			}
		}
		if code, err := e.Exec(t.Context(), id, runtime.ExecSpec{Cmd: []string{"exit", "3"}}, runtime.ExecStreams{}); code != 3 || err != nil {
			t.Errorf("without streams: code %d, error %v", code, err)
		}
		_, err := e.Exec(t.Context(), id, runtime.ExecSpec{}, runtime.ExecStreams{})
		wantTerminal(t, err, apis.ReasonInvalid)
		fake.Exit(name, 0)
		_, err = e.Exec(t.Context(), id, runtime.ExecSpec{Cmd: []string{"cat"}}, runtime.ExecStreams{})
		wantClass(t, err, apis.ErrConflict, "not running")
	})
}

func TestExecTerminal(t *testing.T) {
	fake := engine.NewFake(t)
	fake.AddImage(imgRef, "amd64", nil, nil)
	e := open(t, fake.Host())
	id := create(t, e, spec())
	sizes := make(chan runtime.TermSize)
	stdin, feed := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := e.Exec(t.Context(), id, runtime.ExecSpec{Cmd: []string{"wait"}, TTY: true, Size: runtime.TermSize{Rows: 24, Cols: 80}},
			runtime.ExecStreams{Stdin: stdin, Resize: sizes})
		done <- err
	}()
	sizes <- runtime.TermSize{Rows: 50, Cols: 100}
	eventually(t, func() bool { return cmp.Equal(fake.ExecSizes(), []string{"24x80", "50x100"}) })
	if err := feed.Close(); err != nil { // the command's input ends
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestExecCutShort(t *testing.T) {
	fake := engine.NewFake(t)
	fake.AddImage(imgRef, "amd64", nil, nil)
	e := open(t, fake.Host())
	id := create(t, e, spec())
	ctx, cancel := context.WithCancel(t.Context())
	stdin, feed := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := e.Exec(ctx, id, runtime.ExecSpec{Cmd: []string{"cat"}}, runtime.ExecStreams{Stdin: stdin})
		done <- err
	}()
	if _, err := feed.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	_ = feed.Close()
}
