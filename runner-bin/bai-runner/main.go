// SPDX-License-Identifier: Apache-2.0

// Command bai-runner is the one binary that runs inside every kernel container: its entrypoint, its runner with the SSH
// server, and the small commands that images may lack. It is called by the name of a command or with it as first
// argument.
package main

import (
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"agentd/runner-bin/internal/entry"
	"agentd/runner-bin/internal/identity"
	"agentd/runner-bin/internal/kernel"
	"agentd/runner-bin/internal/say"
	"agentd/runner-bin/internal/sshclient"
	"agentd/runner-bin/internal/transfer"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run(os.Args)) }

// run carries out the command and returns its exit code.
func run(args []string) int {
	name := filepath.Base(args[0])
	command := commands()[name]
	if command == nil {
		if len(args) < 2 {
			return usage(os.Stderr, 2)
		}
		name, args = args[1], args[1:]
		if command = commands()[name]; command == nil {
			say.To(os.Stderr, "bai-runner: ").Linef("unknown command %q", name)
			return usage(os.Stderr, 2)
		}
	}
	return command(args[1:])
}

// commands are all commands by name.
func commands() map[string]func(args []string) int {
	return map[string]func(args []string) int{
		"entrypoint":    runEntrypoint,
		"entrypoint.sh": runEntrypoint,
		"su-exec":       func(args []string) int { return identity.SuExec(args, os.Stdout, os.Stderr) },
		"runner":        runRunner,
		"ssh":           func(args []string) int { return sshclient.Main(args) },
		"scp":           func(args []string) int { return transfer.SCP(args) },
		"sftp":          func(args []string) int { return transfer.SFTP(args) },
		"sftp-server":   func([]string) int { return transfer.SFTPServer(os.Stdin, os.Stdout, os.Stderr) },
		"version": func([]string) int {
			say.To(os.Stdout, "").Linef("bai-runner %s", version)
			return 0
		},
		"help": func([]string) int { return usage(os.Stdout, 0) },
	}
}

func usage(to io.Writer, code int) int {
	say.To(to, "").Printf(`usage: bai-runner COMMAND [ARGUMENT]...

  entrypoint [COMMAND]...       prepare a container as root, then run COMMAND as its user
  runner [--] [COMMAND]...      run a kernel: bootstrap, SSH server, agent socket, COMMAND
  su-exec USER-SPEC COMMAND...  run COMMAND as another user
  ssh, scp, sftp                clients for images without them
  sftp-server                   serve file transfer on standard input and output
  version                       print the version
`)
	return code
}

func runEntrypoint(args []string) int {
	if len(args) == 1 && args[0] == entry.ReportArg {
		return entry.Report()
	}
	return entry.New().Run(args)
}

func runRunner(args []string) int {
	// Idle most of its life beside the user's work: little memory and few threads matter more than speed.
	debug.SetGCPercent(30)
	debug.SetMemoryLimit(64 << 20)
	runtime.GOMAXPROCS(min(4, runtime.NumCPU()))

	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, kernel.Signals()...)
	k := kernel.Kernel{
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Version: version,
		Self:    []string{"/proc/self/exe"},
		Listen:  "0.0.0.0",
		Signals: signals,
	}
	return k.Run(args)
}
