// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"agentd/pkg/apis/config"
)

func newConfigCommand(s streams, g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check, show or begin an agent.toml",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help() // nothing can be said any more
			return usagef("one of check, show and sample is needed")
		},
	}
	g.addConfigFlag(cmd)
	cmd.AddCommand(newConfigCheckCommand(s, g), newConfigShowCommand(s, g), newConfigSampleCommand(s))
	return cmd
}

// checked is the result of "config check" as data.
type checked struct {
	Path     string          `json:"path,omitempty"`
	OK       bool            `json:"ok"`
	Errors   []string        `json:"errors,omitempty"`
	Warnings []config.Notice `json:"warnings,omitempty"`
	Unused   []config.Notice `json:"unused,omitempty"`
}

func newConfigCheckCommand(s streams, g *globals) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say what is wrong, doubtful or without effect in the configuration",
		Long: `Read the configuration as "agentd run" would and report every error, every
warning, and the keys that have no effect. Nothing is changed.

Exit codes: 0 it can be used (warnings or not), 1 it has errors, 2 a mistake on
the command line.`,
		Example: `  agentd config check
  agentd config check -f /etc/backend.ai/agent.toml -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c := checked{}
			path, err := g.findConfig()
			if errors.Is(err, config.ErrUsage) {
				return err
			}
			if err == nil {
				var cfg *config.Config
				var report *config.Report
				cfg, report, err = g.loadConfig(s)
				c.Path, c.Warnings, c.Unused = path, report.Warnings, report.Unused
				if err == nil { // what "run" would refuse
					err = errors.Join(cfg.Unsupported()...)
				}
			}
			if err != nil {
				c.Errors = strings.Split(err.Error(), "\n")
			}
			c.OK = err == nil
			if f != formatTable {
				err = printData(s.out, f, c)
			} else {
				err = c.print(s.out)
			}
			if err == nil && !c.OK {
				return exitError(exitFailed)
			}
			return err
		},
	}
	formatFlag(cmd, &f, formatJSON, formatYAML)
	return cmd
}

func (c *checked) print(w io.Writer) error {
	var b strings.Builder
	for _, e := range c.Errors {
		fmt.Fprintf(&b, "error: %s\n", e)
	}
	for _, n := range c.Warnings {
		fmt.Fprintf(&b, "warning: %s: %s\n", c.Path, n)
	}
	for _, n := range c.Unused {
		fmt.Fprintf(&b, "no effect: %s: %s\n", c.Path, n)
	}
	if c.OK {
		fmt.Fprintf(&b, "%s: ok", c.Path)
	} else {
		fmt.Fprintf(&b, "%s: %s", strings.TrimSpace(c.Path+" configuration"), count(len(c.Errors), "error"))
	}
	fmt.Fprintf(&b, ", %s, %s without effect\n", count(len(c.Warnings), "warning"), count(len(c.Unused), "key"))
	_, err := io.WriteString(w, b.String())
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func newConfigShowCommand(s streams, g *globals) *cobra.Command {
	var f format
	var origins bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the configuration that the node would run with, secrets masked",
		Example: `  agentd config show
  agentd config show --origins     # where each value comes from`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, report, err := g.loadConfig(s)
			if err != nil {
				return err
			}
			if !origins {
				return printData(s.out, f, cfg)
			}
			if f != formatTable {
				return printData(s.out, f, report.Origins)
			}
			values, err := flatten(cfg)
			if err != nil {
				return err
			}
			t := newTable(s.out, "KEY", "VALUE", "FROM")
			for _, o := range report.Origins {
				t.row(o.Key, values[o.Key], o.String())
			}
			return t.Flush()
		},
	}
	formatFlag(cmd, &f, formatYAML, formatJSON)
	cmd.Flags().BoolVar(&origins, "origins", false, "show each key with the place that its value comes from")
	return cmd
}

// flatten returns the JSON values of a configuration by dotted key.
func flatten(cfg *config.Config) (map[string]string, error) {
	b, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	var walk func(prefix string, raw json.RawMessage)
	walk = func(prefix string, raw json.RawMessage) {
		var m map[string]json.RawMessage
		if prefix != "" {
			out[prefix] = string(raw)
		}
		if json.Unmarshal(raw, &m) != nil {
			return
		}
		for k, v := range m {
			key := k
			if prefix != "" {
				key = prefix + "." + k
			}
			walk(key, v)
		}
	}
	walk("", b)
	return out, nil
}

func newConfigSampleCommand(s streams) *cobra.Command {
	return &cobra.Command{
		Use:     "sample",
		Short:   "Print a commented agent.toml to begin with",
		Example: `  agentd config sample > agent.toml`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(s.out, config.Sample())
			return err
		},
	}
}
