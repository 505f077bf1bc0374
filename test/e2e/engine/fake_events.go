// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"
)

// event is one line of the event stream.
type event struct {
	at     time.Time
	labels map[string]string
	line   string
}

// tell adds a container's event to the stream; the lock is held.
func (f *Fake) tell(c *container, action string, extra map[string]string) {
	attributes := maps.Clone(c.config.Labels)
	if attributes == nil {
		attributes = map[string]string{}
	}
	attributes["name"], attributes["image"] = c.name, c.config.Image
	maps.Copy(attributes, extra)
	now := time.Now()
	line, err := json.Marshal(object{
		"Type": "container", "Action": action, "scope": "local", "time": now.Unix(), "timeNano": now.UnixNano(),
		"Actor": object{"ID": c.id, "Attributes": attributes},
	})
	if err != nil {
		f.t.Error(err)
		return
	}
	f.events = append(f.events, event{at: now, labels: attributes, line: string(line)})
	f.changed.Broadcast()
}

// Inject puts a line into every event stream, whatever it is.
func (f *Fake) Inject(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, event{at: time.Now(), line: line})
	f.changed.Broadcast()
}

// watch streams events from the time asked for until the client leaves.
func (f *Fake) watch(w http.ResponseWriter, r *http.Request) error {
	filter, err := readFilters(r)
	if err != nil {
		return err
	}
	since := time.Now()
	if text := r.URL.Query().Get("since"); text != "" {
		var sec, nsec int64
		if _, err := fmt.Sscanf(text, "%d.%d", &sec, &nsec); err != nil {
			return fail(http.StatusBadRequest, "invalid since %q", text)
		}
		since = time.Unix(sec, nsec)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	stop := f.wakeAtEnd(r.Context())
	defer stop()
	for next := 0; ; {
		f.mu.Lock()
		for next == len(f.events) && r.Context().Err() == nil {
			f.changed.Wait()
		}
		fresh := f.events[next:]
		next = len(f.events)
		f.mu.Unlock()
		if r.Context().Err() != nil {
			return nil
		}
		for _, ev := range fresh {
			if !ev.at.Before(since) && (ev.labels == nil || filter.labels(ev.labels)) {
				_, _ = io.WriteString(w, ev.line+"\n")
			}
		}
		_ = http.NewResponseController(w).Flush()
	}
}
