// SPDX-License-Identifier: Apache-2.0

package docker_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/pkg/apis"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/docker"
	"agentd/test/e2e/engine"
)

func TestImageInspect(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		fake.AddImage("imported:1", "", nil, nil)
		fake.AddImage("arm:1", "arm64", nil, nil)
		for ref, want := range map[string]runtime.ImageState{
			imgRef:       {Architecture: "x86_64", Labels: map[string]string{"ai.backend.kernelspec": "1"}, Env: []string{"PATH=/bin"}},
			"imported:1": {Architecture: "x86_64"},
			"arm:1":      {Architecture: "aarch64"},
		} {
			got, found, err := e.Images().Inspect(t.Context(), ref)
			if err != nil || !found {
				t.Fatalf("%s: found %v, error %v", ref, found, err)
			}
			want.ID = got.ID
			if diff := cmp.Diff(want, got); diff != "" || got.ID == "" {
				t.Errorf("%s (-want +got):\n%s", ref, diff)
			}
		}
		if _, found, err := e.Images().Inspect(t.Context(), "none:1"); found || err != nil {
			t.Errorf("missing image: found %v, error %v", found, err)
		}
	})
}

func line(id, status string, current, total int) string {
	return fmt.Sprintf(`{"id":%q,"status":%q,"progressDetail":{"current":%d,"total":%d}}`, id, status, current, total)
}

func TestPull(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		ref := apis.ImageRef{Canonical: "cr.example:5000/stable/r:4", Username: "u", Password: "p"}
		lines := []string{`{"status":"Pulling from stable/r","id":"4"}`}
		for i := range 500 {
			lines = append(lines, line("a", "Downloading", i*1000, 500_000))
		}
		lines = append(lines, line("b", "Already exists", 0, 0), line("a", "Download complete", 0, 0), line("a", "Pull complete", 0, 0),
			`{"status":"Digest: sha256:00"}`, `{"status":"Status: Downloaded newer image"}`)
		fake.SetPull(ref.Canonical, http.StatusOK, lines...)
		var auth []byte
		fake.Add(engine.Rule{Method: "POST", Path: "/images/create", Header: func(h http.Header) {
			auth, _ = base64.URLEncoding.DecodeString(h.Get("X-Registry-Auth"))
		}})
		var told []string
		if err := e.Images().Pull(t.Context(), ref, func(s string) { told = append(told, s) }); err != nil {
			t.Fatal(err)
		}
		if n := len(told); n < 2 || n > 20 || told[n-1] != "2 of 2 layers, 0.5 of 0.5 MB" {
			t.Errorf("progress %q, want few texts and the last complete", told)
		}
		var creds map[string]string
		if err := json.Unmarshal(auth, &creds); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"username": "u", "password": "p", "serveraddress": "cr.example:5000"}, creds); diff != "" {
			t.Errorf("credentials (-want +got):\n%s", diff)
		}
		if _, found, err := e.Images().Inspect(t.Context(), ref.Canonical); !found || err != nil {
			t.Errorf("afterwards: found %v, error %v", found, err)
		}
	})
}

func TestPullFailures(t *testing.T) {
	const ref = "cr.example/stable/r:4"
	for _, tc := range []struct {
		name   string
		status int
		lines  []string
		reason string // empty for transient
	}{
		{"no such tag", http.StatusNotFound, []string{"manifest for x not found: manifest unknown: manifest unknown"}, apis.ReasonImageMissing},
		{"wrong password", http.StatusInternalServerError, []string{`Head "https://x": unauthorized: incorrect username or password`}, apis.ReasonUnauthorized},
		{"unauthorized", http.StatusUnauthorized, []string{"no"}, apis.ReasonUnauthorized},
		{"forbidden", http.StatusForbidden, []string{"no"}, apis.ReasonUnauthorized},
		{"no network", http.StatusInternalServerError, []string{`Get "https://x/v2/": dial tcp: lookup x: no such host`}, ""},
		{
			"inside the stream", http.StatusOK,
			[]string{line("a", "Downloading", 1, 2), `{"errorDetail":{"message":"unauthorized: authentication required"},"error":"unauthorized"}`},
			apis.ReasonUnauthorized,
		},
		{
			"network inside the stream", http.StatusOK,
			[]string{line("a", "Downloading", 1, 2), `{"errorDetail":{"message":"read tcp: connection reset by peer"},"error":"x"}`},
			"",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
				fake.SetPull(ref, tc.status, tc.lines...)
				err := e.Images().Pull(t.Context(), apis.ImageRef{Canonical: ref}, nil)
				if tc.reason == "" {
					wantClass(t, err, apis.ErrUnavailable, ref)
					return
				}
				wantTerminal(t, err, tc.reason, ref)
			})
		})
	}
}

func TestPullCutOff(t *testing.T) {
	eachAPI(t, func(t *testing.T, fake *engine.Fake, e *docker.Engine) {
		const ref = "cr.example/stable/r:4"
		fake.SetPull(ref, http.StatusOK, line("a", "Downloading", 1, 2), line("a", "Pull complete", 0, 0))
		fake.Add(engine.Rule{Method: "POST", Path: "/images/create", CutAfter: 20})
		err := e.Images().Pull(t.Context(), apis.ImageRef{Canonical: ref}, nil)
		wantClass(t, err, apis.ErrUnavailable, ref, "cut")
	})
}

func TestPullOfNonsense(t *testing.T) {
	fake := engine.NewFake(t)
	err := open(t, fake.Host()).Images().Pull(t.Context(), apis.ImageRef{Canonical: "Not A Reference"}, nil)
	wantTerminal(t, err, apis.ReasonInvalid, "Not A Reference")
}
