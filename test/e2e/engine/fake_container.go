// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// container is one container of the fake engine.
type container struct {
	id, name  string
	raw       []byte
	config    containerConfig
	state     string
	exitCode  int
	oom       bool
	errorText string
	created   time.Time
	log       []byte
}

type containerConfig struct {
	Image      string
	Labels     map[string]string
	Tty        bool
	HostConfig struct {
		NetworkMode  string
		PortBindings map[string][]portBinding
		Mounts       []struct{ Type, Source, Target string }
	}
}

type portBinding struct {
	HostIP   string `json:"HostIp"`
	HostPort string
}

// Body is the JSON that the container of the name was created with; nil if
// there is none.
func (f *Fake) Body(name string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.find(name); c != nil {
		return c.raw
	}
	return nil
}

// State is what the container of the name or ID does; "" if there is none.
func (f *Fake) State(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.find(name); c != nil {
		return c.state
	}
	return ""
}

// Exit ends the container's program.
func (f *Fake) Exit(name string, code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.find(name); c != nil && c.state == "running" {
		f.end(c, code)
	}
}

// OOM ends the container as the kernel does when memory is short.
func (f *Fake) OOM(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.find(name); c != nil && c.state == "running" {
		c.oom = true
		f.tell(c, "oom", nil)
		f.end(c, 137)
	}
}

// Print adds to the container's log.
func (f *Fake) Print(name, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.find(name); c != nil {
		c.log = append(c.log, text...)
		f.changed.Broadcast()
	}
}

// find looks up a name or an ID; the lock is held.
func (f *Fake) find(ref string) *container {
	for _, c := range f.containers {
		if c.name == ref || c.id == ref || len(ref) >= 12 && strings.HasPrefix(c.id, ref) {
			return c
		}
	}
	return nil
}

func (f *Fake) mustFind(r *http.Request) (*container, error) {
	ref := r.PathValue("id")
	if c := f.find(ref); c != nil {
		return c, nil
	}
	return nil, fail(http.StatusNotFound, "No such container: %s", ref)
}

// end stops the program; the lock is held.
func (f *Fake) end(c *container, code int) {
	c.state, c.exitCode = "exited", code
	f.tell(c, "die", map[string]string{"exitCode": strconv.Itoa(code)})
	f.changed.Broadcast()
}

func (f *Fake) createContainer(w http.ResponseWriter, r *http.Request) error {
	raw := bodyOf(r)
	var cfg containerConfig
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return fail(http.StatusBadRequest, "invalid JSON: %v", err)
	}
	name := r.URL.Query().Get("name")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.images[cfg.Image] == nil {
		return fail(http.StatusNotFound, "No such image: %s", cfg.Image)
	}
	if old := f.find(name); old != nil {
		return fail(http.StatusConflict, "Conflict. The container name %q is already in use by container %q. "+
			"You have to remove (or rename) that container to be able to reuse that name.", "/"+name, old.id)
	}
	targets := map[string]bool{}
	for _, m := range cfg.HostConfig.Mounts {
		if targets[m.Target] {
			return fail(http.StatusBadRequest, "Duplicate mount point: %s", m.Target)
		}
		targets[m.Target] = true
		if _, err := os.Stat(m.Source); m.Type == "bind" && err != nil {
			return fail(http.StatusBadRequest, `invalid mount config for type "bind": bind source path does not exist: %s`, m.Source)
		}
	}
	c := &container{id: f.newID("container"), name: name, raw: raw, config: cfg, state: "created", created: time.Now()}
	f.containers = append(f.containers, c)
	f.tell(c, "create", nil)
	return answer(w, http.StatusCreated, object{"Id": c.id, "Warnings": []string{}})
}

func (f *Fake) startContainer(w http.ResponseWriter, r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.mustFind(r)
	if err != nil {
		return err
	}
	if c.state == "running" {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if err := f.mayStart(c); err != nil {
		c.exitCode, c.errorText = 128, err.Error()
		return err
	}
	c.state, c.errorText = "running", ""
	f.tell(c, "start", nil)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// mayStart looks for what keeps an engine from starting a container.
func (f *Fake) mayStart(c *container) error {
	if mode := c.config.HostConfig.NetworkMode; !slices.Contains([]string{"", "default", "bridge", "host", "none"}, mode) {
		switch nets := f.networksOf(mode); len(nets) {
		case 0:
			return fail(http.StatusNotFound, "network %s not found", mode)
		case 1:
		default:
			return fail(http.StatusBadRequest, "network %s is ambiguous (%d matches found on name)", mode, len(nets))
		}
	}
	for _, bindings := range c.config.HostConfig.PortBindings {
		for _, b := range bindings {
			port, err := strconv.Atoi(b.HostPort)
			if err != nil {
				return fail(http.StatusBadRequest, "invalid port %q", b.HostPort)
			}
			at := fmt.Sprintf("%s:%d", orAny(b.HostIP), port)
			if f.occupied[port] {
				return fail(http.StatusInternalServerError, "driver failed programming external connectivity on endpoint %s (%s): "+
					"Error starting userland proxy: listen tcp4 %s: bind: address already in use", c.name, c.id, at)
			}
			for _, other := range f.containers {
				if other.state == "running" && other.publishes(b.HostPort) {
					return fail(http.StatusInternalServerError, "driver failed programming external connectivity on endpoint %s (%s): "+
						"Bind for %s failed: port is already allocated", c.name, c.id, at)
				}
			}
		}
	}
	return nil
}

func orAny(ip string) string {
	if ip == "" {
		return "0.0.0.0"
	}
	return ip
}

func (c *container) publishes(hostPort string) bool {
	for _, bindings := range c.config.HostConfig.PortBindings {
		for _, b := range bindings {
			if b.HostPort == hostPort {
				return true
			}
		}
	}
	return false
}

func (f *Fake) stopContainer(w http.ResponseWriter, r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.mustFind(r)
	if err != nil {
		return err
	}
	if c.state != "running" {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	f.tell(c, "kill", map[string]string{"signal": "2"})
	f.end(c, 130)
	f.tell(c, "stop", nil)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (f *Fake) killContainer(w http.ResponseWriter, r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.mustFind(r)
	if err != nil {
		return err
	}
	if c.state != "running" {
		return fail(http.StatusConflict, "Cannot kill container: %s: Container %s is not running", r.PathValue("id"), c.id)
	}
	f.tell(c, "kill", map[string]string{"signal": "9"})
	f.end(c, 137)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (f *Fake) removeContainer(w http.ResponseWriter, r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.mustFind(r)
	if err != nil {
		return err
	}
	if c.state == "running" {
		if r.URL.Query().Get("force") != "1" {
			return fail(http.StatusConflict, "You cannot remove a running container %s. Stop the container before attempting removal or force remove", c.id)
		}
		f.end(c, 137)
	}
	f.containers = slices.DeleteFunc(f.containers, func(o *container) bool { return o == c })
	f.tell(c, "destroy", nil)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (f *Fake) inspectContainer(w http.ResponseWriter, r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.mustFind(r)
	if err != nil {
		return err
	}
	var body object
	if err := json.Unmarshal(c.raw, &body); err != nil {
		return err
	}
	host := body["HostConfig"]
	delete(body, "HostConfig")
	delete(body, "NetworkingConfig")
	ports := object{}
	if c.state == "running" {
		for port, bindings := range c.config.HostConfig.PortBindings {
			var list []object
			for _, b := range bindings {
				list = append(list, object{"HostIp": orAny(b.HostIP), "HostPort": b.HostPort})
			}
			ports[port] = list
		}
	}
	return answer(w, http.StatusOK, object{
		"Id": c.id, "Name": "/" + c.name, "Created": stamp(c.created), "Image": "sha256:" + c.id, "Config": body, "HostConfig": host,
		"State": object{
			"Status": c.state, "Running": c.state == "running", "ExitCode": c.exitCode, "OOMKilled": c.oom, "Error": c.errorText,
		},
		"NetworkSettings": object{"Ports": ports},
	})
}

func (f *Fake) listContainers(w http.ResponseWriter, r *http.Request) error {
	filter, err := readFilters(r)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []object{}
	for _, c := range f.containers {
		if !filter.labels(c.config.Labels) || !filter.name(c.name) || c.state != "running" && r.URL.Query().Get("all") != "1" {
			continue
		}
		status, ports := "Up 2 seconds", []object{}
		switch c.state {
		case "created":
			status = "Created"
		case "exited":
			status = fmt.Sprintf("Exited (%d) 2 seconds ago", c.exitCode)
		case "running":
			for port, bindings := range c.config.HostConfig.PortBindings {
				number, proto, _ := strings.Cut(port, "/")
				private, _ := strconv.Atoi(number)
				for _, b := range bindings {
					public, _ := strconv.Atoi(b.HostPort)
					ports = append(ports, object{"IP": orAny(b.HostIP), "PrivatePort": private, "PublicPort": public, "Type": proto})
				}
			}
		}
		list = append(list, object{
			"Id": c.id, "Names": []string{"/" + c.name}, "Image": c.config.Image, "Created": c.created.Unix(), "Labels": c.config.Labels,
			"State": c.state, "Status": status, "Ports": ports,
		})
	}
	return answer(w, http.StatusOK, list)
}
