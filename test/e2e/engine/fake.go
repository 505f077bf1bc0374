// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fake is an Engine API server in memory. Containers run no program: they run
// until they are stopped, killed or told to exit.
type Fake struct {
	Server
	api string

	mu         sync.Mutex
	changed    *sync.Cond
	serial     int
	containers []*container
	networks   []*network
	images     map[string]*image
	pulls      map[string]pull
	execs      map[string]*exec
	events     []event
	occupied   map[int]bool
	swarm      string
	poolsFull  bool
}

// Option shapes a fake engine.
type Option func(*Fake)

// WithAPI sets the highest API version that the engine speaks, "1.45" if not set.
func WithAPI(version string) Option { return func(f *Fake) { f.api = version } }

// WithSwarm sets the node's state in a swarm, "inactive" if not set.
func WithSwarm(state string) Option { return func(f *Fake) { f.swarm = state } }

// NewFake listens until the test ends.
func NewFake(t testing.TB, opts ...Option) *Fake {
	t.Helper()
	f := &Fake{
		api: "1.45", swarm: "inactive",
		images: map[string]*image{}, pulls: map[string]pull{}, execs: map[string]*exec{}, occupied: map[int]bool{},
	}
	f.changed = sync.NewCond(&f.mu)
	for _, o := range opts {
		o(f)
	}
	f.start(t, f.handler())
	return f
}

// SetAPI makes it another version from now on, as after an upgrade.
func (f *Fake) SetAPI(version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.api = version
}

// Occupy makes a host port unusable, as another program's.
func (f *Fake) Occupy(port int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.occupied[port] = true
}

// ExhaustPools leaves no address range for another network.
func (f *Fake) ExhaustPools() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.poolsFull = true
}

func (f *Fake) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /_ping":                  f.ping,
		"GET /version":                f.version,
		"GET /info":                   f.info,
		"GET /events":                 f.watch,
		"GET /containers/json":        f.listContainers,
		"POST /containers/create":     f.createContainer,
		"GET /containers/{id}/json":   f.inspectContainer,
		"POST /containers/{id}/start": f.startContainer,
		"POST /containers/{id}/stop":  f.stopContainer,
		"POST /containers/{id}/kill":  f.killContainer,
		"DELETE /containers/{id}":     f.removeContainer,
		"GET /containers/{id}/logs":   f.logs,
		"POST /containers/{id}/exec":  f.createExec,
		"POST /exec/{id}/start":       f.startExec,
		"POST /exec/{id}/resize":      f.resizeExec,
		"GET /exec/{id}/json":         f.inspectExec,
		"GET /networks":               f.listNetworks,
		"POST /networks/create":       f.createNetwork,
		"GET /networks/{id}":          f.inspectNetwork,
		"DELETE /networks/{id}":       f.removeNetwork,
		"GET /images/{name...}":       f.inspectImage,
		"POST /images/create":         f.pullImage,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				refuse(w, err)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		api := f.api
		f.mu.Unlock()
		w.Header().Set("Api-Version", api)
		if v := versionPrefix.FindString(r.URL.Path); v != "" {
			if asked := strings.Trim(v, "/v"); newer(asked, api) {
				refuse(w, fail(http.StatusBadRequest, "client version %s is too new. Maximum supported API version is %s", asked, api))
				return
			}
			r.URL.Path = r.URL.Path[len(v)-1:]
		}
		mux.ServeHTTP(w, r)
	})
}

// newer compares API versions.
func newer(a, b string) bool {
	minor := func(v string) int {
		_, m, _ := strings.Cut(v, ".")
		n, err := strconv.Atoi(m)
		if err != nil {
			panic(err)
		}
		return n
	}
	return minor(a) > minor(b)
}

func (f *Fake) ping(w http.ResponseWriter, _ *http.Request) error {
	f.mu.Lock()
	w.Header().Set("Swarm", f.swarm)
	f.mu.Unlock()
	w.Header().Set("Ostype", "linux")
	_, _ = w.Write([]byte("OK"))
	return nil
}

func (f *Fake) version(w http.ResponseWriter, _ *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return answer(w, http.StatusOK, object{"Version": "20.10.24", "ApiVersion": f.api, "MinAPIVersion": "1.24", "Os": "linux", "Arch": "amd64"})
}

func (f *Fake) info(w http.ResponseWriter, _ *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return answer(w, http.StatusOK, object{
		"ServerVersion": "20.10.24", "NCPU": 8, "MemTotal": 16 << 30, "Architecture": "x86_64", "OperatingSystem": "Fake Linux",
		"KernelVersion": "6.1.0", "CgroupVersion": "2", "CgroupDriver": "systemd", "DefaultRuntime": "runc",
		"Runtimes":      object{"runc": object{"path": "runc"}, "nvidia": object{"path": "nvidia-container-runtime"}},
		"DockerRootDir": "/var/lib/docker", "Driver": "overlay2", "LiveRestoreEnabled": true,
		"Swarm":    object{"LocalNodeState": f.swarm, "ControlAvailable": false, "NodeAddr": "10.0.0.1"},
		"Warnings": []string{"WARNING: No swap limit support"},
	})
}

// object is a JSON object.
type object map[string]any

// apiError is an answer that says no.
type apiError struct {
	status  int
	message string
}

func (e apiError) Error() string { return e.message }

func fail(status int, format string, args ...any) error {
	return apiError{status, fmt.Sprintf(format, args...)}
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if e, ok := err.(apiError); ok { //nolint:errorlint // handlers return it bare
		status = e.status
	}
	_ = answer(w, status, object{"message": err.Error()})
}

func answer(w http.ResponseWriter, status int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
	return nil
}

// newID makes 64 digits; the lock is held.
func (f *Fake) newID(of string) string {
	f.serial++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", of, f.serial))
	return hex.EncodeToString(sum[:])
}

// filters are the API's filters: term → values. Engines take two JSON forms.
type filters map[string][]string

func readFilters(r *http.Request) (filters, error) {
	raw := r.URL.Query().Get("filters")
	if raw == "" {
		return nil, nil
	}
	out := filters{}
	var sets map[string]map[string]bool
	if err := json.Unmarshal([]byte(raw), &sets); err != nil {
		if err := json.Unmarshal([]byte(raw), &out); err != nil {
			return nil, fail(http.StatusBadRequest, "invalid filter: %v", err)
		}
		return out, nil
	}
	for term, values := range sets {
		for v := range values {
			out[term] = append(out[term], v)
		}
	}
	return out, nil
}

// labels tells whether all label filters hold.
func (f filters) labels(have map[string]string) bool {
	return !slices.ContainsFunc(f["label"], func(want string) bool {
		key, value, exact := strings.Cut(want, "=")
		got, ok := have[key]
		return !ok || exact && got != value
	})
}

// name tells whether the name contains one of the filters'.
func (f filters) name(have string) bool {
	return len(f["name"]) == 0 || slices.ContainsFunc(f["name"], func(want string) bool { return strings.Contains(have, want) })
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
