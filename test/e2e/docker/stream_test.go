// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

func TestExec(t *testing.T) {
	n := open(t)
	id := n.start(n.spec("k1", forever))
	for _, tty := range []bool{false, true} {
		var out, errOut bytes.Buffer
		code, err := n.Exec(t.Context(), id, runtime.ExecSpec{
			Cmd: []string{"/bin/sh", "-c", `echo "$X $PWD"; echo oops >&2; exit 7`}, Env: []string{"X=y"}, WorkingDir: "/tmp", TTY: tty,
		}, runtime.ExecStreams{Stdout: &out, Stderr: &errOut})
		want := [2]string{"y /tmp\n", "oops\n"}
		if tty {
			want = [2]string{"y /tmp\r\noops\r\n", ""}
		}
		if got := [2]string{out.String(), errOut.String()}; code != 7 || err != nil || got != want {
			t.Errorf("terminal %v: code %d, error %v, output %q", tty, code, err, got)
		}
	}
	// The end of the input reaches the command, and all of its output comes back.
	in := strings.Repeat("0123456789abcde\n", 1<<16)
	var out bytes.Buffer
	code, err := n.Exec(t.Context(), id, runtime.ExecSpec{Cmd: []string{"cat"}}, runtime.ExecStreams{Stdin: strings.NewReader(in), Stdout: &out})
	if code != 0 || err != nil || out.String() != in {
		t.Errorf("cat of %d bytes: code %d, error %v, %d bytes back", len(in), code, err, out.Len())
	}
	// A terminal has the size that it was given last.
	sizes := make(chan runtime.TermSize, 1)
	stdin, feed := io.Pipe()
	out.Reset()
	var session errgroup.Group
	session.Go(func() error {
		code, err = n.Exec(t.Context(), id, runtime.ExecSpec{Cmd: []string{"/bin/sh", "-c", "read x; stty size"}, TTY: true, Size: runtime.TermSize{Rows: 10, Cols: 20}},
			runtime.ExecStreams{Stdin: stdin, Stdout: &out, Resize: sizes})
		return err
	})
	if _, err := feed.Write([]byte(" ")); err != nil { // the session stands
		t.Fatal(err)
	}
	sizes <- runtime.TermSize{Rows: 33, Cols: 77}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for n.proxy.Requests("POST", "/exec/.*/resize") == 0 || n.proxy.Open("/resize") > 0 {
		<-tick.C
	}
	if _, err := feed.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if err := session.Wait(); err != nil || !strings.Contains(out.String(), "33 77") {
		t.Errorf("error %v, output %q, want size 33 77", err, out.String())
	}
	_ = feed.Close()
}

func TestFollowedLog(t *testing.T) {
	n := open(t)
	id := n.start(n.spec("k1", `for i in 1 2 3; do echo $i; sleep 0.1; done`))
	r, err := n.Logs(t.Context(), id, runtime.LogOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	if string(b) != "1\r\n2\r\n3\r\n" || err != nil {
		t.Errorf("log %q, error %v", b, err)
	}
}

// TestEvents cuts the event stream while containers start and end: what is
// missed is told by the next subscription.
func TestEvents(t *testing.T) {
	n := open(t)
	seen := make(chan runtime.Event, 100)
	watch := func(since time.Time) (ended chan error) {
		ended, ready := make(chan error, 1), make(chan struct{})
		go func() {
			ended <- n.Watch(t.Context(), since, func() { close(ready) }, func(ev runtime.Event) { seen <- ev })
		}()
		<-ready
		return ended
	}
	start := time.Now()
	ended := watch(start)
	n.start(n.spec("k1", "exit 3"))
	expect := func(kernel string, actions ...string) {
		t.Helper()
		var got []string
		for range actions {
			select {
			case ev := <-seen:
				got = append(got, ev.KernelID+" "+ev.Action)
			case <-time.After(20 * time.Second):
				t.Fatalf("events of %s: %q, want %q", kernel, got, actions)
			}
		}
		for i := range actions {
			actions[i] = kernel + " " + actions[i]
		}
		if diff := cmp.Diff(actions, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
	expect("k1", "create", "start", "die")
	n.proxy.Cut("/events")
	<-ended
	missed := time.Now()
	s := n.spec("k2", "exit 4")
	n.start(s)
	n.ended(s)
	watch(missed)
	expect("k2", "create", "start", "die")
}

func TestObserver(t *testing.T) {
	n := open(t)
	seen, woken := make(chan []runtime.ContainerState, 100), make(chan string, 100)
	o := runtime.NewObserver(n, n)
	o.Seen = func(c []runtime.ContainerState) { seen <- c }
	o.Wake = func(id string) { woken <- id }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	if c := <-seen; len(c) != 0 {
		t.Errorf("first listing %v, want none", c)
	}
	n.start(n.spec("k1", forever))
	if id := <-woken; id != "k1" {
		t.Errorf("woken for %q", id)
	}
	n.proxy.Cut("/events")
	if c := <-seen; len(c) != 1 || c[0].State != apis.ContainerRunning { // follows the new subscription
		t.Errorf("second listing %v", c)
	}
	cancel()
	<-done
}
