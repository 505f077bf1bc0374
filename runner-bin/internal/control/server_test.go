// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentd/pkg/apis/record"
	"agentd/pkg/runtime/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, status record.StatusPayload) (*Board, string) {
	t.Helper()
	dir := t.TempDir()
	board := NewBoard(status)
	server, err := Listen(filepath.Join(dir, record.SocketName), "bai-runner test", board)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return board, dir
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestAgent runs the agent's client against this server.
func TestAgent(t *testing.T) {
	want := record.StatusPayload{
		Stage: record.StageSetup, Version: "1.2", StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Command: record.Command{State: record.CommandPending},
	}
	board, dir := start(t, want)
	client, err := runner.Dial(soon(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if client.Software != "bai-runner test" {
		t.Errorf("software %q", client.Software)
	}
	got, err := client.Status(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	board.Warn("bootstrap.sh ended with exit code 3")
	if got, err = client.Status(soon(t)); err != nil || len(got.Warnings) != 1 {
		t.Errorf("after a warning: %+v, %v", got, err)
	}
	for range 2 * maxWarnings {
		board.Warn("again")
	}
	if got, err = client.Status(soon(t)); err != nil || len(got.Warnings) != maxWarnings {
		t.Errorf("after many warnings: %d of them, %v", len(got.Warnings), err)
	}
}

// TestReadinessIsPushed has an agent wait through all stages.
func TestReadinessIsPushed(t *testing.T) {
	board, dir := start(t, record.StatusPayload{Stage: record.StageSetup})
	type result struct {
		status runner.Status
		err    error
	}
	results := make(chan result, 1)
	go func() {
		status, err := runner.WaitReady(soon(t), dir)
		results <- result{status, err}
	}()
	board.Update(func(s *record.StatusPayload) { s.Stage = record.StageBootstrap })
	board.Update(func(s *record.StatusPayload) { s.Stage, s.Ready = record.StageRunning, true })
	if r := <-results; r.err != nil || !r.status.Ready || r.status.Stage != record.StageRunning {
		t.Errorf("%+v", r)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, record.SocketName)
	for _, name := range []string{path, path + ".new"} {
		stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		stale.SetUnlinkOnClose(false)
		_ = stale.Close()
	}
	server, err := Listen(path, "test", NewBoard(record.StatusPayload{}))
	if err != nil {
		t.Fatal(err)
	}
	client, err := runner.Dial(soon(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info, err)
	}
	server.Close()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestNoDirectory(t *testing.T) {
	_, err := Listen(filepath.Join(t.TempDir(), "missing", record.SocketName), "test", NewBoard(record.StatusPayload{}))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// raw is a client that says what the test wants.
type raw struct {
	t      *testing.T
	conn   net.Conn
	reader *record.Reader
	writer *record.Writer
}

func dial(t *testing.T, dir string) *raw {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Join(dir, record.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &raw{t, conn, record.NewReader(conn, 0), record.NewWriter(conn)}
}

func (r *raw) say(kind record.Type, request uint64, value any) {
	r.t.Helper()
	out, err := record.New(kind, request, value)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = r.writer.Write(out) // the server may have hung up already
}

func (r *raw) hear() record.Record {
	r.t.Helper()
	got, err := r.reader.Read()
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// closed reads until the server hangs up.
func (r *raw) closed() {
	r.t.Helper()
	var timeout net.Error
	if _, err := io.Copy(io.Discard, r.conn); errors.As(err, &timeout) && timeout.Timeout() {
		r.t.Error("the server did not hang up")
	}
}

func (r *raw) greet() {
	r.t.Helper()
	r.say(record.Hello, 1, record.HelloPayload{Protocol: record.Protocol})
	r.hear()
}

func TestUnknownRequest(t *testing.T) {
	_, dir := start(t, record.StatusPayload{})
	r := dial(t, dir)
	r.greet()
	r.say(record.Type(999), 42, nil)
	answer := r.hear()
	var failure record.FailurePayload
	if err := answer.Decode(&failure); err != nil || answer.Type != record.Failure || answer.Request != 42 ||
		failure.Code != record.CodeUnknownRequest {
		t.Errorf("%+v %+v %v", answer, failure, err)
	}
	r.say(record.StatusRequest, 43, nil)
	if got := r.hear(); got.Type != record.StatusRequest || got.Request != 43 {
		t.Errorf("after it: %+v", got)
	}
}

func TestBadPeers(t *testing.T) {
	tests := []struct {
		name string
		talk func(*raw)
	}{
		{"garbage", func(r *raw) { _, _ = r.conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) }},
		{"no hello", func(r *raw) { r.say(record.StatusRequest, 1, nil) }},
		{"hello that is no JSON", func(r *raw) { _ = r.writer.Write(record.Record{Type: record.Hello, Payload: []byte("{")}) }},
		{"another protocol", func(r *raw) { r.say(record.Hello, 1, record.HelloPayload{Protocol: 99}) }},
		{"oversized", func(r *raw) { r.greet(); r.say(record.StatusRequest, 2, string(make([]byte, maxRequest))) }},
		{"too many watches", func(r *raw) {
			r.greet()
			for i := range uint64(maxWatches + 1) {
				r.say(record.WatchRequest, i+2, nil)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, dir := start(t, record.StatusPayload{})
			r := dial(t, dir)
			tt.talk(r)
			r.closed()
		})
	}
}

// TestOldestMakesRoom fills the server with idle connections; the agent gets in all the same.
func TestOldestMakesRoom(t *testing.T) {
	_, dir := start(t, record.StatusPayload{Version: "1"})
	first := dial(t, dir)
	first.greet()
	for range maxConns {
		dial(t, dir).greet()
	}
	first.closed()
	client, err := runner.Dial(soon(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if status, err := client.Status(soon(t)); err != nil || status.Version != "1" {
		t.Errorf("%+v, %v", status, err)
	}
}
