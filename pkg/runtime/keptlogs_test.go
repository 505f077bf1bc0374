// SPDX-License-Identifier: Apache-2.0

package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
)

func keep(t testing.TB, maxBytes int64) (*runtime.KeptLogs, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "logs")
	k, err := runtime.NewKeptLogs(dir, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return k, dir
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestKeptLogsKeepTheTail(t *testing.T) {
	k, dir := keep(t, 10)
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringN(0, 50, 60).Draw(rt, "log")
		var r io.Reader = strings.NewReader(text)
		if rapid.Bool().Draw(rt, "by byte") {
			r = iotest.OneByteReader(r)
		}
		if err := k.Save(t.Context(), "k1", r); err != nil {
			rt.Fatal(err)
		}
		f, err := k.Open("k1")
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		got, err := io.ReadAll(f)
		if want := text[max(len(text)-10, 0):]; string(got) != want || err != nil {
			rt.Fatalf("kept %q of %q, error %v, want %q", got, text, err, want)
		}
	})
	if diff := cmp.Diff([]string{"k1.log"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(dir, "k1.log"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v, want 0600", info.Mode(), err)
	}
}

func TestKeptLogsSurviveAFailedSave(t *testing.T) {
	k, dir := keep(t, 100)
	if err := k.Save(t.Context(), "k1", strings.NewReader("old")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("stream broke")
	if err := k.Save(t.Context(), "k1", io.MultiReader(strings.NewReader("new"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got %v, want the reader's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Save(ctx, "k1", strings.NewReader("new")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	f, err := k.Open("k1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if got, _ := io.ReadAll(f); string(got) != "old" {
		t.Errorf("kept %q, want what was there before", got)
	}
	if diff := cmp.Diff([]string{"k1.log"}, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestKeptLogsNames(t *testing.T) {
	k, _ := keep(t, 100)
	if _, err := k.Open("k1"); !errors.Is(err, apis.ErrNotFound) {
		t.Errorf("got %v, want not found", err)
	}
	for _, id := range []string{"", "..", ".hidden", "../k1", "a/b", "a\x00b", "a*"} {
		if _, err := k.Open(id); !errors.Is(err, apis.ErrInvalid) {
			t.Errorf("open %q: got %v, want invalid", id, err)
		}
		if err := k.Save(t.Context(), id, strings.NewReader("")); !errors.Is(err, apis.ErrInvalid) {
			t.Errorf("save %q: got %v, want invalid", id, err)
		}
	}
}

func TestKeptLogsPrune(t *testing.T) {
	k, dir := keep(t, 100)
	for i := range 5 {
		id := fmt.Sprintf("k%d", i)
		if err := k.Save(t.Context(), id, strings.NewReader(id)); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-time.Duration(i) * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, id+".log"), at, at); err != nil {
			t.Fatal(err)
		}
	}
	long := time.Now().Add(-30 * time.Hour)
	for _, name := range []string{"k9.1.part", "foreign.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), long, long); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		files int
		age   time.Duration
		want  []string
	}{
		{0, 0, []string{"foreign.txt", "k0.log", "k1.log", "k2.log", "k3.log", "k4.log", "k9.1.part"}},
		{0, 210 * time.Minute, []string{"foreign.txt", "k0.log", "k1.log", "k2.log", "k3.log"}},
		{2, 0, []string{"foreign.txt", "k0.log", "k1.log"}},
	} {
		if err := k.Prune(tc.files, tc.age); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, names(t, dir)); diff != "" {
			t.Errorf("after Prune(%d, %s) (-want +got):\n%s", tc.files, tc.age, diff)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := k.Prune(1, 0); err == nil {
		t.Error("no error without a directory")
	}
}
