// SPDX-License-Identifier: Apache-2.0

// Package say writes the few lines that bai-runner has for people: one line a message, with a prefix, whole lines only.
package say

import (
	"fmt"
	"io"
	"strings"
)

// Printer writes messages to one stream. A nil Printer is silent.
type Printer struct {
	to     io.Writer
	prefix string
}

// To returns a printer that puts the prefix in front of every message.
func To(w io.Writer, prefix string) *Printer {
	return &Printer{to: w, prefix: prefix}
}

// Linef writes one message. Line breaks inside become spaces, so that a message stays one line in a log. A stream that
// takes no more is ignored: there is nobody left to tell.
func (p *Printer) Linef(format string, args ...any) {
	if p == nil || p.to == nil {
		return
	}
	text := strings.TrimRight(fmt.Sprintf(format, args...), "\r\n")
	text = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ").Replace(text)
	_, _ = io.WriteString(p.to, p.prefix+text+"\n")
}

// Printf writes text as it is, without prefix and line break.
func (p *Printer) Printf(format string, args ...any) {
	if p == nil || p.to == nil {
		return
	}
	_, _ = fmt.Fprintf(p.to, format, args...)
}
