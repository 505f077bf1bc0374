// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

func TestFramesAreSplitAndJoined(t *testing.T) {
	var wire bytes.Buffer
	f := &frames{to: &wire}
	sent := bytes.Repeat([]byte("x"), 3*maxFrame+1)
	if n, err := f.writer(frameStdout).Write(sent); n != len(sent) || err != nil {
		t.Fatal(n, err)
	}
	if err := f.send(frameStdinEnd, nil); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for {
		kind, data, err := readFrame(&wire, nil)
		if err != nil {
			t.Fatal(err)
		}
		if kind == frameStdinEnd {
			break
		}
		got = append(got, data...)
	}
	if !bytes.Equal(got, sent) || wire.Len() != 0 {
		t.Errorf("%d bytes of %d, %d left", len(got), len(sent), wire.Len())
	}
}

func TestTermSizes(t *testing.T) {
	for _, s := range []runtime.TermSize{{}, {Rows: 24, Cols: 80}, {Rows: 65535, Cols: 65535}} {
		if got, err := decodeSize(encodeSize(s)); err != nil || got != s {
			t.Errorf("%v became %v, %v", s, got, err)
		}
	}
	if got, err := decodeSize(encodeSize(runtime.TermSize{Rows: 1 << 40, Cols: 2})); err != nil || got != (runtime.TermSize{Rows: 65535, Cols: 2}) {
		t.Errorf("a size beyond all terminals became %v, %v", got, err)
	}
}

// FuzzReadFrame makes sure that nothing a client sends costs more than a frame.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 1, 'x', 2, 0, 0, 0, 0})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		from := bytes.NewReader(data)
		for {
			_, part, err := readFrame(from, nil)
			if len(part) > maxFrame {
				t.Fatalf("a frame of %d bytes", len(part))
			}
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errFrame) {
					t.Error(err)
				}
				return
			}
		}
	})
}

func TestExecFor(t *testing.T) {
	kernel := apis.KernelSpec{Environ: map[string]string{"A": "b"}}
	container := apis.ContainerSpec{Env: []string{"LOCAL_USER_ID=1001", "LOCAL_GROUP_ID=1002", "ADDITIONAL_GIDS=7,8"}}
	request := ExecRequest{Cmd: []string{"id"}}
	type identity struct {
		User string
		Cmd  []string
	}
	of := func(s runtime.ExecSpec) identity { return identity{s.User, s.Cmd} }
	for name, x := range map[string]struct {
		spec runtime.ExecSpec
		want identity
	}{
		"without the runner's su-exec": {execFor(kernel, container, nil, request), identity{"1001:1002", []string{"id"}}},
		"root asked for":               {execFor(kernel, container, nil, ExecRequest{Cmd: []string{"id"}, Root: true}), identity{"0:0", []string{"id"}}},
		"kernel of root":               {execFor(kernel, apis.ContainerSpec{Env: []string{"LOCAL_USER_ID=0"}}, nil, request), identity{"0:0", []string{"id"}}},
	} {
		if diff := cmp.Diff(x.want, of(x.spec)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	container.Mounts = []apis.Mount{{Source: "/x", Target: suExec}}
	want := identity{"0:0", []string{suExec, "1001:1002,7,8,42", "id"}}
	if diff := cmp.Diff(want, of(execFor(kernel, container, nil, request))); diff != "" {
		t.Errorf("with su-exec (-want +got)\n%s", diff)
	}
}

func TestTail(t *testing.T) {
	for _, x := range []struct {
		text string
		n    int
		want string
	}{{"", 3, ""}, {"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb\nc", 2, "b\nc"}, {"a\n", 5, "a\n"}, {strings.Repeat("l\n", 1000), 1, "l\n"}} {
		r, err := tail(io.NopCloser(strings.NewReader(x.text)), x.n)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(r); string(b) != x.want {
			t.Errorf("%.20q, %d: %q, want %q", x.text, x.n, b, x.want)
		}
	}
}

// TestStrangersAreRefused plays a client whose peer check failed.
func TestStrangersAreRefused(t *testing.T) {
	s := &Server{mux: http.NewServeMux()}
	s.mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) { t.Error("a stranger got in") })
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), connKey{}, peer{allowed(1234, 1)}), http.MethodGet, "/", nil)
	s.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "user 1234: only root") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
