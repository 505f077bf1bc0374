// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/http"
	"strconv"
)

// logs streams the log, framed for containers without a terminal.
func (f *Fake) logs(w http.ResponseWriter, r *http.Request) error {
	f.mu.Lock()
	c, err := f.mustFind(r)
	if err != nil {
		f.mu.Unlock()
		return err
	}
	sent := 0
	if tail, err := strconv.Atoi(r.URL.Query().Get("tail")); err == nil {
		sent = len(c.log) - len(lastLines(c.log, tail))
	}
	follow := r.URL.Query().Get("follow") == "1"
	stop := f.wakeAtEnd(r.Context())
	defer stop()
	for first := true; ; first = false {
		for !first && len(c.log) == sent && c.state == "running" && r.Context().Err() == nil {
			f.changed.Wait()
		}
		part, ended := bytes.Clone(c.log[sent:]), c.state != "running" || !follow
		sent = len(c.log)
		f.mu.Unlock()
		if !c.config.Tty {
			part = frame(1, part)
		}
		_, _ = w.Write(part)
		_ = http.NewResponseController(w).Flush()
		f.mu.Lock()
		if r.Context().Err() != nil || ended && len(c.log) == sent {
			f.mu.Unlock()
			return nil
		}
	}
}

// wakeAtEnd wakes those who wait for a change when the request ends.
func (f *Fake) wakeAtEnd(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changed.Broadcast()
	})
}

// frame puts the API's 8-byte head before output: 1 is stdout, 2 stderr.
func frame(stream byte, p []byte) []byte {
	if len(p) == 0 {
		return nil
	}
	head := make([]byte, 8, 8+len(p))
	head[0] = stream
	binary.BigEndian.PutUint32(head[4:], uint32(len(p)))
	return append(head, p...)
}

func lastLines(log []byte, n int) []byte {
	at := len(log)
	for i := len(log) - 1; i >= 0 && n > 0; i-- {
		if i > 0 && log[i-1] != '\n' {
			continue
		}
		at = i
		n--
	}
	return log[at:]
}
