// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"io"
	"net/http"
	"strings"
)

// image is one image of the fake engine.
type image struct {
	id     string
	arch   string
	config any
}

// pull is what a registry says to a pull.
type pull struct {
	status int
	lines  []string
	adds   bool
}

// AddImage makes an image present. A nil config is that of an imported image.
func (f *Fake) AddImage(ref, arch string, labels map[string]string, env []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var config any
	if labels != nil || env != nil {
		config = object{"Labels": labels, "Env": env}
	}
	f.images[ref] = &image{id: "sha256:" + f.newID("image"), arch: arch, config: config}
}

// SetPull says what a pull of the reference answers: with status 200 the lines
// are the progress stream, and the image is there afterwards unless one of them
// tells an error; else they are the message.
func (f *Fake) SetPull(ref string, status int, lines ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	adds := status == http.StatusOK && !strings.Contains(strings.Join(lines, ""), "errorDetail")
	f.pulls[ref] = pull{status: status, lines: lines, adds: adds}
}

func (f *Fake) inspectImage(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimSuffix(r.PathValue("name"), "/json")
	f.mu.Lock()
	defer f.mu.Unlock()
	img := f.images[name]
	if img == nil {
		return fail(http.StatusNotFound, "No such image: %s", name)
	}
	return answer(w, http.StatusOK, object{"Id": img.id, "Architecture": img.arch, "Os": "linux", "Config": img.config})
}

func (f *Fake) pullImage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	ref := q.Get("fromImage") + ":" + q.Get("tag")
	f.mu.Lock()
	p, ok := f.pulls[ref]
	f.mu.Unlock()
	if !ok {
		return fail(http.StatusNotFound, "manifest for %s not found: manifest unknown: manifest unknown", ref)
	}
	if p.status != http.StatusOK {
		return fail(p.status, "%s", strings.Join(p.lines, "\n"))
	}
	w.Header().Set("Content-Type", "application/json")
	for _, line := range p.lines {
		_, _ = io.WriteString(w, line+"\r\n")
		_ = http.NewResponseController(w).Flush()
	}
	if p.adds {
		f.AddImage(ref, "amd64", nil, nil)
	}
	return nil
}
