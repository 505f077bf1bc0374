// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// format is how a command prints what it found.
type format string

// The formats; the empty one is a table for people.
const (
	formatTable format = ""
	formatWide  format = "wide"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
	formatName  format = "name"
)

// formatFlag adds -o with the formats that the command knows.
func formatFlag(cmd *cobra.Command, into *format, known ...format) {
	names := make([]string, len(known))
	for i, f := range known {
		names[i] = string(f)
	}
	cmd.Flags().VarP(&formatValue{into, known}, "output", "o", "output format: "+strings.Join(names, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // the flag was defined just now
}

// formatValue is a flag that takes known formats only.
type formatValue struct {
	into  *format
	known []format
}

// String returns the value.
func (v *formatValue) String() string {
	if v.into == nil {
		return ""
	}
	return string(*v.into)
}

// Set takes a known format.
func (v *formatValue) Set(s string) error {
	if !slices.Contains(v.known, format(s)) {
		return fmt.Errorf("%q is not one of them", s)
	}
	*v.into = format(s)
	return nil
}

// Type names the value in help texts.
func (v *formatValue) Type() string { return "format" }

// printData writes a value as JSON or YAML.
func printData(w io.Writer, f format, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if f == formatJSON {
		var out bytes.Buffer
		if err := json.Indent(&out, b, "", "  "); err != nil {
			return err
		}
		out.WriteByte('\n')
		_, err = w.Write(out.Bytes())
		return err
	}
	if b, err = yaml.JSONToYAML(b); err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// table writes aligned columns.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer, columns ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
	if len(columns) > 0 {
		t.row(columns...)
	}
	return t
}

// row writes one row; what people or kernels wrote cannot disturb the others.
func (t table) row(cells ...string) {
	for i, c := range cells {
		if c == "" {
			c = "-"
		}
		cells[i] = oneLine(c)
	}
	_, _ = fmt.Fprintln(t, strings.Join(cells, "\t"))
}

// oneLine replaces what would break a table or a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// age says how long ago something was, in one or two units.
func age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return span(time.Since(t))
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(int(d.Seconds()), 0))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// short cuts an ID to what tells it apart.
func short(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	if len(id) > 12 {
		return id[:12]
	}
	return id
}

// yesNo writes a condition's status.
func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
