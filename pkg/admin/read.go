// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"agentd/pkg/apis"
)

// list answers GET /v1/{kind}, with ?watch=true or ?follow=true as a stream of [Change] lines.
func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	kind, err := ParseKind(r.PathValue("kind"))
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if q.Get("watch") == "true" || q.Get("follow") == "true" {
		return s.stream(func(w http.ResponseWriter, r *http.Request) error { return s.watch(w, r, kind) })(w, r)
	}
	writeJSON(w, http.StatusOK, s.objects.List(kind))
	return nil
}

// get answers GET /v1/{kind}/{name}.
func (s *Server) get(w http.ResponseWriter, r *http.Request) error {
	kind, err := ParseKind(r.PathValue("kind"))
	if err != nil {
		return err
	}
	o, err := s.objects.Find(kind, r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, o)
	return nil
}

// pending collects the names of a kind that changed since they were last asked for.
type pending struct {
	mu    sync.Mutex
	names map[string]bool
	woken chan struct{}
}

// follow starts collecting; stop ends it.
func (s *Server) follow(want func(apis.Key) bool) (p *pending, stop func()) {
	p = &pending{names: map[string]bool{}, woken: make(chan struct{}, 1)}
	stop = s.deps.Set.Store.Subscribe(func(k apis.Key) { // called within commits: must not wait for anybody
		if !want(k) {
			return
		}
		p.mu.Lock()
		p.names[k.Name] = true
		p.mu.Unlock()
		select {
		case p.woken <- struct{}{}:
		default:
		}
	})
	return p, stop
}

// take returns the names that changed, sorted.
func (p *pending) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Sorted(maps.Keys(p.names))
	clear(p.names)
	return out
}

// watch sends every object of a kind, and from then on every change. A slow
// client gets the latest state only, never a backlog.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, kind apis.Kind) error {
	p, stop := s.follow(func(k apis.Key) bool { return k.Kind == kind })
	defer stop()
	out := newLines(w)
	sent := map[string]uint64{}
	send := func(name string) error {
		o, ok := s.objects.Get(kind, name)
		if !ok {
			if _, known := sent[name]; !known {
				return nil
			}
			delete(sent, name)
			return out.send(Change{Type: ChangeGone, Name: name})
		}
		rev := revisionOf(o)
		if was, known := sent[name]; known && was == rev {
			return nil // told of because a part of it changed
		}
		sent[name] = rev
		raw, err := json.Marshal(o)
		if err != nil {
			return err
		}
		return out.send(Change{Type: ChangePut, Name: name, Object: raw})
	}
	for _, name := range s.objects.Names(kind) {
		if err := send(name); err != nil {
			return err
		}
	}
	if err := out.send(Change{Type: ChangeListed}); err != nil {
		return err
	}
	for {
		select {
		case <-p.woken:
		case <-r.Context().Done():
			return nil
		}
		for _, name := range p.take() {
			if err := send(name); err != nil {
				return err
			}
		}
	}
}

// revisionOf reads the revision of an object of any kind.
func revisionOf(o any) uint64 {
	if m, ok := o.(interface{ revision() uint64 }); ok {
		return m.revision()
	}
	return 0
}

func (t Typed[S, T]) revision() uint64 { return t.Revision }

// lines writes JSON lines to a client, each at once.
type lines struct {
	w       http.ResponseWriter
	c       *http.ResponseController
	started bool
}

func newLines(w http.ResponseWriter) *lines {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{}) // the request has been read; what follows may take long
	return &lines{w: w, c: c}
}

func (l *lines) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if !l.started {
		l.started = true
		l.w.Header().Set("Content-Type", "application/jsonl")
	}
	_ = l.c.SetWriteDeadline(time.Now().Add(stallTime))
	if _, err = l.w.Write(append(b, '\n')); err == nil {
		err = l.c.Flush()
	}
	if err != nil {
		return errors.Join(errSent, err)
	}
	return nil
}
