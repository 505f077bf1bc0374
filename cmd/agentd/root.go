// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"agentd/pkg/apis"
	"agentd/pkg/apis/config"
)

// defaultSocket is where the daemon's socket is looked for when no
// configuration says where it is.
const defaultSocket = "/run/agentd/agentd.sock"

// globals are the flags of every command.
type globals struct {
	config   string
	socket   string
	logLevel string
}

func newRoot(s streams) *cobra.Command {
	g := &globals{}
	root := &cobra.Command{
		Use:   "agentd",
		Short: "Backend.AI agent of one node",
		Long: `agentd runs the compute sessions of one Backend.AI node: "agentd run" is the
daemon, and the other commands talk to it over its admin socket.

Exit codes: 0 done, 1 failed or could not run, 2 a mistake on the command line.
"exec" and "ssh" give the exit code of what they ran, "apply" gives 3 when a
kernel did not become ready.`,
		Example: `  agentd run --config /etc/backend.ai/agent.toml
  agentd apply -f examples/cluster.yaml
  agentd get kernels
  agentd ssh demo/main1`,
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = fmt.Sprintf("; did you mean %q?", strings.Join(near, `" or "`))
			}
			return usagef("unknown command %q%s", args[0], hint)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	p := root.PersistentFlags()
	p.StringVar(&g.config, "config", "", "agent.toml (default: $BACKEND_CONFIG_FILE, ./agent.toml, ~/.config/backend.ai/agent.toml, /etc/backend.ai/agent.toml)")
	p.StringVar(&g.socket, "socket", "", "admin socket of the daemon (default: $AGENTD_SOCKET, agentd.admin-socket in agent.toml, "+defaultSocket+")")
	p.StringVar(&g.logLevel, "log-level", "", "DEBUG, INFO, WARNING or ERROR (default: logging.level in agent.toml)")
	root.AddCommand(
		newRunCommand(s, g), newReconcileCommand(s, g),
		newApplyCommand(s, g), newDeleteCommand(s, g),
		newGetCommand(s, g), newDescribeCommand(s, g), newTopCommand(s, g), newEventsCommand(s, g),
		newLogsCommand(s, g), newExecCommand(s, g), newSSHCommand(s, g),
		newConfigCommand(s, g), newVersionCommand(s, g), newCompletionCommand(s),
	)
	usageArgs(root)
	return root
}

// usageArgs makes a wrong number of arguments a usage error in all commands.
func usageArgs(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		usageArgs(c)
		check := c.Args
		if check == nil {
			continue
		}
		c.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			var usage usageError
			if err == nil || errors.As(err, &usage) {
				return err
			}
			return usagef("%w; usage: %s", err, cmd.UseLine())
		}
	}
}

// addConfigFlag gives a command of the daemon the short form -f of --config,
// and the other names that the reference agent has for it (26.8).
func (g *globals) addConfigFlag(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVarP(&g.config, "config", "f", "", "agent.toml to read instead of the first one found")
	f.StringVar(&g.config, "config-path", "", "same as --config")
	f.BoolFunc("debug", "same as --log-level DEBUG", func(string) error {
		g.logLevel = "DEBUG"
		return nil
	})
	for _, name := range []string{"config-path", "debug"} {
		_ = f.MarkHidden(name) // it was defined just now
	}
}

// logLevelOr returns the level given on the command line, or another one.
func (g *globals) logLevelOr(level string) string { return cmp.Or(g.logLevel, level) }

// findConfig returns the path of the configuration file.
func (g *globals) findConfig() (string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	home, _ := os.UserHomeDir() // one place less to look at
	return config.Find(g.config, os.Getenv, cwd, home, os.Stat)
}

// loadConfig finds and reads the configuration.
func (g *globals) loadConfig(streams) (*config.Config, *config.Report, error) {
	path, err := g.findConfig()
	if err != nil {
		return nil, nil, err
	}
	return config.Load(path, os.Getenv)
}

// socketPath returns the daemon's socket, and the configuration that named it
// if one did.
func (g *globals) socketPath() (string, *config.Config, error) {
	named := cmp.Or(g.socket, os.Getenv("AGENTD_SOCKET"))
	if named != "" && g.config == "" {
		abs, err := filepath.Abs(named)
		return abs, nil, err
	}
	cfg, _, err := g.loadConfig(streams{})
	switch {
	case err == nil:
		return cmp.Or(named, string(cfg.Agentd.AdminSocket)), cfg, nil
	case g.config == "" && (errors.Is(err, apis.ErrNotFound) || errors.Is(err, fs.ErrNotExist)):
		return cmp.Or(named, defaultSocket), nil, nil
	}
	return "", nil, fmt.Errorf("the configuration names the daemon's socket, but: %w; --socket names it directly", err)
}
