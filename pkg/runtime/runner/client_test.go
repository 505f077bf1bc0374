// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/pkg/apis/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers every connection to the socket in a directory with a function, until the test ends.
func serve(t *testing.T, dir string, answer func(net.Conn)) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(dir, record.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			answer(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
}

// speaker is a runner that follows the protocol.
type speaker struct {
	conn   net.Conn
	reader *record.Reader
	writer *record.Writer
}

func newSpeaker(conn net.Conn) *speaker {
	return &speaker{conn, record.NewReader(conn, 0), record.NewWriter(conn)}
}

// answer reads a request and answers it with each value in turn.
func (s *speaker) answer(values ...any) bool {
	request, err := s.reader.Read()
	if err != nil {
		return false
	}
	for _, value := range values {
		r, err := record.New(request.Type, request.Request, value)
		if err != nil || s.writer.Write(r) != nil {
			return false
		}
	}
	return true
}

// drain reads until the other side closes.
func drain(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func hello() record.HelloPayload {
	return record.HelloPayload{Protocol: record.Protocol, Software: "test"}
}

func short(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestStatus(t *testing.T) {
	dir := t.TempDir()
	want := Status{Ready: true, Stage: record.StageRunning, Version: "1", SSH: record.Service{Port: 2200}}
	serve(t, dir, func(conn net.Conn) {
		s := newSpeaker(conn)
		if s.answer(hello()) && s.answer(want) {
			s.answer(want)
		}
	})
	c, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Software != "test" {
		t.Errorf("software %q", c.Software)
	}
	for range 2 {
		got, err := c.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestNotASocket puts things in the socket's place that the container's user could put there.
func TestNotASocket(t *testing.T) {
	elsewhere := t.TempDir()
	touched := make(chan struct{}, 1)
	serve(t, elsewhere, func(net.Conn) { touched <- struct{}{} })
	tests := []struct {
		name string
		make func(path string) error
		want error
	}{
		{"nothing", func(string) error { return nil }, fs.ErrNotExist},
		{"link to a socket elsewhere", func(p string) error {
			return os.Symlink(filepath.Join(elsewhere, record.SocketName), p)
		}, ErrNotSocket},
		{"dangling link", func(p string) error { return os.Symlink("/nonexistent", p) }, ErrNotSocket},
		{"link to a terminal", func(p string) error { return os.Symlink("/dev/tty", p) }, ErrNotSocket},
		{"link to itself", func(p string) error { return os.Symlink(p, p) }, ErrNotSocket},
		{"pipe", func(p string) error { return syscall.Mkfifo(p, 0o666) }, ErrNotSocket},
		{"directory", func(p string) error { return os.Mkdir(p, 0o777) }, ErrNotSocket},
		{"file", func(p string) error { return os.WriteFile(p, []byte("x"), 0o666) }, ErrNotSocket},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := tt.make(filepath.Join(dir, record.SocketName)); err != nil {
				t.Fatal(err)
			}
			if _, err := Dial(short(t, 5*time.Second), dir); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
	select {
	case <-touched:
		t.Error("the socket behind the link was connected to")
	default:
	}
}

func TestRunDirItself(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, func(conn net.Conn) { newSpeaker(conn).answer(hello()) })
	link := filepath.Join(t.TempDir(), "run")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), link); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("link in place of the directory: %v, want ENOTDIR", err)
	}
	if _, err := Dial(t.Context(), filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
}

// TestLongPath connects below a path that is longer than a socket address.
func TestLongPath(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		dir = filepath.Join(dir, strings.Repeat("d", 100))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	near := t.TempDir()
	serve(t, near, func(conn net.Conn) { newSpeaker(conn).answer(hello()) })
	if err := os.Rename(filepath.Join(near, record.SocketName), filepath.Join(dir, record.SocketName)); err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// TestHostilePeer has a socket behind which something else than a runner speaks.
func TestHostilePeer(t *testing.T) {
	repeat := func(conn net.Conn, b []byte) {
		for {
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
	}
	oversized, err := record.Append(nil, record.Record{Type: record.Hello, Request: 1, Payload: make([]byte, maxAnswer+1)})
	if err != nil {
		t.Fatal(err)
	}
	stray, err := record.Append(nil, record.Record{Type: record.StatusRequest, Request: 99})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		answer func(net.Conn)
		want   error
	}{
		{"silence", drain, context.DeadlineExceeded},
		{"hangs up", func(net.Conn) {}, io.EOF},
		{"garbage", func(c net.Conn) { repeat(c, []byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, ErrProtocol},
		{"zeroes", func(c net.Conn) { repeat(c, make([]byte, 4096)) }, ErrProtocol},
		{"oversized", func(c net.Conn) { repeat(c, oversized) }, ErrProtocol},
		{"flood of what nobody asked for", func(c net.Conn) { repeat(c, stray) }, ErrProtocol},
		{"a byte and no more", func(c net.Conn) { _, _ = c.Write([]byte{0}); drain(c) }, context.DeadlineExceeded},
		{"another version", func(c net.Conn) { newSpeaker(c).answer(record.HelloPayload{Protocol: 7}); drain(c) }, ErrProtocol},
		{"payload that is no JSON", func(c net.Conn) {
			b, _ := record.Append(nil, record.Record{Type: record.Hello, Request: 1, Payload: []byte("{")})
			_, _ = c.Write(b)
			drain(c)
		}, ErrProtocol},
		{"answer of another type", func(c net.Conn) {
			b, _ := record.Append(nil, record.Record{Type: record.StatusRequest, Request: 1, Payload: []byte("{}")})
			_, _ = c.Write(b)
			drain(c)
		}, ErrProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			serve(t, dir, tt.answer)
			_, err := Dial(short(t, 300*time.Millisecond), dir)
			if !errors.Is(err, tt.want) && !(errors.Is(tt.want, io.EOF) && comesAgain(err)) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

func TestFailureIsNoEnd(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, func(conn net.Conn) {
		s := newSpeaker(conn)
		if !s.answer(hello()) {
			return
		}
		request, err := s.reader.Read()
		if err != nil {
			return
		}
		r, err := record.New(record.Failure, request.Request, record.FailurePayload{Code: "no", Message: "not now"})
		if err == nil && s.writer.Write(r) == nil {
			s.answer(Status{Version: "2"})
		}
	})
	c, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var failure *Failure
	if _, err := c.Status(t.Context()); !errors.As(err, &failure) || failure.Code != "no" {
		t.Errorf("error %v, want the runner's failure", err)
	}
	if status, err := c.Status(t.Context()); err != nil || status.Version != "2" {
		t.Errorf("after a failure: %+v, %v", status, err)
	}
}

// TestCancelledCall ends a call in the middle; the client is of no use then, and says so.
func TestCancelledCall(t *testing.T) {
	dir := t.TempDir()
	asked := make(chan struct{})
	serve(t, dir, func(conn net.Conn) {
		s := newSpeaker(conn)
		s.answer(hello())
		_, _ = s.reader.Read()
		close(asked)
		drain(conn)
	})
	c, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := c.Status(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want Canceled", err)
	}
	if _, err := c.Status(t.Context()); err == nil {
		t.Error("a call on a stream in an unknown place succeeded")
	}
	if _, err := c.Status(ctx); err == nil {
		t.Error("a call with an ended context succeeded")
	}
}

// FuzzAnswers feeds the client whatever a socket may bring.
func FuzzAnswers(f *testing.F) {
	good, err := record.New(record.Hello, 1, hello())
	if err != nil {
		f.Fatal(err)
	}
	bytes, err := record.Append(nil, good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes)
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer theirs.Close()
			_, _ = record.NewReader(theirs, 0).Read()
			_, _ = theirs.Write(data)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c, err := greet(ctx, ours)
		if err == nil {
			_, err = c.Status(ctx)
		}
		if err == nil {
			t.Error("a status came out of a hello")
		}
		_ = ours.Close()
		<-done
	})
}
