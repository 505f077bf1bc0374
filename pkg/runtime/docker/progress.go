// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"fmt"
	"time"

	"github.com/moby/moby/api/types/jsonstream"
)

// progressEvery is the shortest time between two texts.
const progressEvery = 500 * time.Millisecond

// pullProgress turns the engine's many messages about layers into one short
// text about the whole image.
type pullProgress struct {
	tell   func(string)
	layers map[string]*layer
	last   time.Time
	told   string
}

type layer struct {
	done           bool
	current, total int64
}

func newPullProgress(tell func(string)) *pullProgress {
	return &pullProgress{tell: tell, layers: map[string]*layer{}}
}

// update takes one message in. Messages without an ID, and the one whose ID is
// the tag, are not about layers.
func (p *pullProgress) update(msg jsonstream.Message, now time.Time) {
	switch msg.Status {
	case "Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Download complete", "Extracting", "Pull complete", "Already exists":
	default:
		return
	}
	l := p.layers[msg.ID]
	if l == nil {
		l = &layer{}
		p.layers[msg.ID] = l
	}
	switch msg.Status {
	case "Downloading":
		if msg.Progress != nil {
			l.current, l.total = msg.Progress.Current, max(msg.Progress.Total, msg.Progress.Current)
		}
	case "Download complete", "Extracting":
		l.current = l.total
	case "Pull complete", "Already exists":
		l.current, l.done = l.total, true
	}
	if now.Sub(p.last) >= progressEvery {
		p.last = now
		p.flush()
	}
}

// flush tells the text now if it is news.
func (p *pullProgress) flush() {
	if p.tell == nil || len(p.layers) == 0 {
		return
	}
	if text := p.text(); text != p.told {
		p.told = text
		p.tell(text)
	}
}

func (p *pullProgress) text() string {
	var done int
	var current, total int64
	for _, l := range p.layers {
		if l.done {
			done++
		}
		current += l.current
		total += l.total
	}
	const mb = 1e6
	if total == 0 {
		return fmt.Sprintf("%d of %d layers", done, len(p.layers))
	}
	return fmt.Sprintf("%d of %d layers, %.1f of %.1f MB", done, len(p.layers), float64(current)/mb, float64(total)/mb)
}
