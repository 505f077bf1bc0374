// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
)

// Rule says what happens to some exchanges. Rules are asked in the order in
// which they were added; the first that applies is obeyed.
type Rule struct {
	// Method is the HTTP method; empty for any.
	Method string
	// Path is a regular expression searched in the path without its version
	// prefix, with the query: /containers/create?name=x.
	Path string
	// Nth makes the rule apply to the nth exchange that matches, counted from
	// 1; 0 is every one. Times makes it apply to that many from the Nth on.
	Nth   int
	Times int

	// Delay waits before anything else.
	Delay time.Duration
	// Hold waits until Release, or until the client leaves.
	Hold bool
	// Status answers with Body in the engine's place.
	Status int
	Body   string
	// Reset closes the connection before the engine hears of it.
	Reset bool
	// LoseAnswer lets the engine do it and closes the connection instead of answering.
	LoseAnswer bool
	// Header sees, and may change, the request's header.
	Header func(http.Header)
	// Request rewrites the request's body, Rewrite the whole answer's.
	Request func([]byte) []byte
	Rewrite func([]byte) []byte
	// CutAfter closes the connection after that many bytes of the answer.
	CutAfter int
	// Blackhole swallows the answer's body without ending it, until the client
	// leaves or the rule is removed. It also falls on answers that had begun
	// before the rule was added.
	Blackhole bool
}

// Handle is a rule at work.
type Handle struct {
	rule    Rule
	path    *regexp.Regexp
	matched int
	applied atomic.Int64
	release chan struct{}
	once    sync.Once
	removed atomic.Bool
}

// Applied counts the exchanges that the rule was applied to.
func (h *Handle) Applied() int { return int(h.applied.Load()) }

// Release lets go what the rule holds, now and later.
func (h *Handle) Release() { h.once.Do(func() { close(h.release) }) }

// Remove ends the rule; what it holds is let go.
func (h *Handle) Remove() {
	h.removed.Store(true)
	h.Release()
}

func (h *Handle) matches(method, path string) bool {
	return !h.removed.Load() && (h.rule.Method == "" || h.rule.Method == method) && h.path.MatchString(path)
}

// Rules are the rules of one server and its account of what was asked.
type Rules struct {
	lock  sync.Mutex
	rules []*Handle
	seen  []request
	open  map[*exchange]struct{}
	work  sync.WaitGroup

	swallowed int
}

type request struct{ method, path string }

// Add puts a rule in force. A wrong expression panics: it is the test's own.
func (r *Rules) Add(rule Rule) *Handle {
	h := &Handle{rule: rule, path: regexp.MustCompile(rule.Path), release: make(chan struct{})}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.rules = append(r.rules, h)
	return h
}

// Clear ends all rules.
func (r *Rules) Clear() {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, h := range r.rules {
		h.Remove()
	}
	r.rules = nil
}

// Requests counts what was asked so far, rules or not.
func (r *Rules) Requests(method, path string) int {
	want := Handle{rule: Rule{Method: method}, path: regexp.MustCompile(path)}
	r.lock.Lock()
	defer r.lock.Unlock()
	n := 0
	for _, q := range r.seen {
		if want.matches(q.method, q.path) {
			n++
		}
	}
	return n
}

// Forget empties the account of what was asked.
func (r *Rules) Forget() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.seen, r.swallowed = nil, 0
}

// Swallowed counts the parts of answers that went into a blackhole.
func (r *Rules) Swallowed() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.swallowed
}

// Open counts the exchanges under way.
func (r *Rules) Open(path string) int {
	want := regexp.MustCompile(path)
	r.lock.Lock()
	defer r.lock.Unlock()
	n := 0
	for x := range r.open {
		if want.MatchString(x.path) {
			n++
		}
	}
	return n
}

// Cut closes the connections of the exchanges under way whose path matches.
func (r *Rules) Cut(path string) {
	want := regexp.MustCompile(path)
	r.lock.Lock()
	defer r.lock.Unlock()
	for x := range r.open {
		if want.MatchString(x.path) {
			x.cut()
		}
	}
}

// wait waits for the exchanges under way.
func (r *Rules) wait() { r.work.Wait() }

// choose notes the request and finds the rule for it.
func (r *Rules) choose(x *exchange) *Handle {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.open == nil {
		r.open = map[*exchange]struct{}{}
	}
	r.open[x] = struct{}{}
	r.seen = append(r.seen, request{x.method, x.path})
	var chosen *Handle
	for _, h := range r.rules {
		if !h.matches(x.method, x.path) {
			continue
		}
		h.matched++
		last := h.rule.Nth + max(h.rule.Times, 1) - 1
		if h.rule.Nth == 0 {
			last = h.rule.Times
		}
		if h.matched < h.rule.Nth || (last > 0 && h.matched > last) || chosen != nil {
			continue
		}
		chosen = h
	}
	if chosen != nil {
		chosen.applied.Add(1)
	}
	return chosen
}

// blackholed tells whether a rule swallows this answer by now.
func (r *Rules) blackholed(x *exchange) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, h := range r.rules {
		if h.rule.Blackhole && h.matches(x.method, x.path) {
			r.swallowed++
			return true
		}
	}
	return false
}

func (r *Rules) forget(x *exchange) {
	r.lock.Lock()
	defer r.lock.Unlock()
	delete(r.open, x)
}

var versionPrefix = regexp.MustCompile(`^/v\d+\.\d+/`)

// wrap puts the rules in front of an engine.
func (r *Rules) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.work.Add(1)
		defer r.work.Done()
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		x := &exchange{
			ResponseWriter: w, rules: r, cancel: cancel, method: req.Method,
			path: versionPrefix.ReplaceAllString(req.URL.RequestURI(), "/"),
		}
		defer r.forget(x)
		x.serve(r.choose(x), next, req.WithContext(ctx))
	})
}
