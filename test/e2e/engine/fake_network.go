// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// network is one network of the fake engine.
type network struct {
	id      string
	created time.Time
	config  networkConfig
}

type networkConfig struct {
	Name, Driver string
	Attachable   bool
	Labels       map[string]string
	Options      map[string]string
}

// AddNetwork makes a network by another hand and returns its ID. Two of one
// name are possible, as they are on old engines.
func (f *Fake) AddNetwork(name, driver string, labels map[string]string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.addNetwork(networkConfig{Name: name, Driver: driver, Labels: labels})
}

// NetworkIDs are the IDs of the networks of that name, oldest first.
func (f *Fake) NetworkIDs(name string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for _, n := range f.networks {
		if n.config.Name == name {
			ids = append(ids, n.id)
		}
	}
	return ids
}

// NetworkLabels and NetworkOptions are what a network was made with.
func (f *Fake) NetworkLabels(id string) (labels, options map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.networks {
		if n.id == id {
			return n.config.Labels, n.config.Options
		}
	}
	return nil, nil
}

func (f *Fake) addNetwork(cfg networkConfig) string {
	n := &network{id: f.newID("network"), created: time.Now(), config: cfg}
	f.networks = append(f.networks, n)
	return n.id
}

// networksOf finds by ID, else by name; the lock is held.
func (f *Fake) networksOf(ref string) []*network {
	var named []*network
	for _, n := range f.networks {
		if n.id == ref {
			return []*network{n}
		}
		if n.config.Name == ref {
			named = append(named, n)
		}
	}
	return named
}

func (f *Fake) oneNetwork(r *http.Request) (*network, error) {
	ref := r.PathValue("id")
	switch nets := f.networksOf(ref); len(nets) {
	case 0:
		return nil, fail(http.StatusNotFound, "network %s not found", ref)
	case 1:
		return nets[0], nil
	default:
		return nil, fail(http.StatusBadRequest, "network %s is ambiguous (%d matches found on name)", ref, len(nets))
	}
}

func (n *network) describe() object {
	return object{
		"Id": n.id, "Name": n.config.Name, "Driver": n.config.Driver, "Created": stamp(n.created),
		"Labels": n.config.Labels, "Options": n.config.Options, "Attachable": n.config.Attachable,
	}
}

// attached are the running containers on a network, as the engine shows them.
func (f *Fake) attached(n *network) object {
	out := object{}
	for _, c := range f.containers {
		if mode := c.config.HostConfig.NetworkMode; c.state == "running" && (mode == n.id || mode == n.config.Name) {
			out[c.id] = object{"Name": c.name, "EndpointID": c.id}
		}
	}
	return out
}

func (f *Fake) listNetworks(w http.ResponseWriter, r *http.Request) error {
	filter, err := readFilters(r)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []object{}
	for _, n := range f.networks {
		if filter.name(n.config.Name) && filter.labels(n.config.Labels) {
			list = append(list, n.describe())
		}
	}
	return answer(w, http.StatusOK, list)
}

func (f *Fake) createNetwork(w http.ResponseWriter, r *http.Request) error {
	var cfg networkConfig
	if err := json.Unmarshal(bodyOf(r), &cfg); err != nil {
		return fail(http.StatusBadRequest, "invalid JSON: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.poolsFull {
		if newer(f.api, "1.43") {
			return fail(http.StatusBadRequest, "all predefined address pools have been fully subnetted")
		}
		return fail(http.StatusInternalServerError, "could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network")
	}
	if newer(f.api, "1.43") && len(f.networksOf(cfg.Name)) > 0 {
		return fail(http.StatusConflict, "network with name %s already exists", cfg.Name)
	}
	return answer(w, http.StatusCreated, object{"Id": f.addNetwork(cfg), "Warning": ""})
}

func (f *Fake) inspectNetwork(w http.ResponseWriter, r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.oneNetwork(r)
	if err != nil {
		return err
	}
	body := n.describe()
	body["Containers"] = f.attached(n)
	return answer(w, http.StatusOK, body)
}

func (f *Fake) removeNetwork(w http.ResponseWriter, r *http.Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.oneNetwork(r)
	if err != nil {
		return err
	}
	if len(f.attached(n)) > 0 {
		return fail(http.StatusForbidden, "error while removing network: network %s id %s has active endpoints", n.config.Name, n.id)
	}
	f.networks = slices.DeleteFunc(f.networks, func(o *network) bool { return o == n })
	w.WriteHeader(http.StatusNoContent)
	return nil
}
