// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"agentd/pkg/admin"
	"agentd/pkg/apis"
)

// watchPrinter prints what is there first, then each change. The columns keep
// the widths that they had in the beginning.
type watchPrinter struct {
	w    io.Writer
	kind apis.Kind
	name string
	f    format

	first  [][]string
	widths []int // nil until everything that was there has come
}

func (p *watchPrinter) take(c admin.Change) error {
	if p.name != "" && c.Name != p.name && c.Type != admin.ChangeListed {
		return nil
	}
	switch c.Type {
	case admin.ChangeListed:
		return p.listed()
	case admin.ChangeGone:
		_, err := fmt.Fprintf(p.w, "%s/%s is gone\n", p.kind, oneLine(c.Name))
		if err == nil && p.name != "" {
			err = errWatched
		}
		return err
	case admin.ChangePut:
		return p.put(c.Object)
	}
	return nil
}

func (p *watchPrinter) put(raw json.RawMessage) error {
	switch p.f {
	case formatJSON:
		_, err := fmt.Fprintf(p.w, "%s\n", raw)
		return err
	case formatYAML:
		if _, err := io.WriteString(p.w, "---\n"); err != nil {
			return err
		}
		return printData(p.w, p.f, raw)
	case formatName:
		return printObjects(p.w, p.kind, []json.RawMessage{raw}, p.f)
	case formatTable, formatWide:
	}
	cells, err := viewOf(p.kind).row(raw, p.f == formatWide)
	if err != nil {
		return err
	}
	if p.widths == nil {
		p.first = append(p.first, cells)
		return nil
	}
	return p.row(cells)
}

// listed prints the table of what was there.
func (p *watchPrinter) listed() error {
	if p.f != formatTable && p.f != formatWide {
		return nil
	}
	titles := viewOf(p.kind).titles(p.f == formatWide)
	rows := append([][]string{titles}, p.first...)
	p.widths = make([]int, len(titles))
	for _, cells := range rows {
		for i, c := range cells {
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(c))
		}
	}
	p.first = nil
	for _, cells := range rows {
		if err := p.row(cells); err != nil {
			return err
		}
	}
	return nil
}

func (p *watchPrinter) row(cells []string) error {
	var b strings.Builder
	for i, c := range cells {
		if c == "" {
			c = "-"
		}
		c = oneLine(c)
		b.WriteString(c)
		if i+1 < len(cells) {
			b.WriteString(strings.Repeat(" ", max(p.widths[i]-utf8.RuneCountInString(c), 0)+2))
		}
	}
	_, err := fmt.Fprintln(p.w, strings.TrimRight(b.String(), " "))
	return err
}
