// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"agentd/pkg/controller"
	"agentd/pkg/controller/intake"
	"agentd/test/admintest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"agentd": main})
}

// TestScripts runs the command line against a daemon on a node in memory.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Values[daemonKey{}] = new(daemon)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon":   func(ts *testscript.TestScript, _ bool, args []string) { cmdDaemon(t.Context(), ts, args) },
			"exits":    cmdExits,
			"end":      cmdEnd,
			"vanish":   cmdVanish,
			"writelog": cmdWriteLog,
			"leftover": cmdLeftover,
		},
	})
}

type daemonKey struct{}

// daemon is the daemon of a script.
type daemon struct {
	*admintest.Daemon
	disk io.Closer
}

// daemonOf returns the daemon of a script.
func daemonOf(ts *testscript.TestScript) *daemon {
	d, _ := ts.Value(daemonKey{}).(*daemon)
	return d
}

func (d *daemon) close() error {
	if d.disk == nil {
		return nil
	}
	disk := d.disk
	d.disk = nil
	return disk.Close()
}

// cmdDaemon is "daemon start [CHECKPOINT]", "daemon stop", which keeps the
// checkpoint locked, and "daemon close", which does not.
func cmdDaemon(ctx context.Context, ts *testscript.TestScript, args []string) {
	d := daemonOf(ts)
	switch {
	case len(args) > 0 && args[0] == "start":
		opt := admintest.Options{}
		if len(args) > 1 {
			cp, _, err := controller.OpenCheckpoint(ts.MkAbs(args[1]), controller.CheckpointOptions{})
			ts.Check(err)
			opt.Disk, d.disk = cp, cp
		}
		var err error
		d.Daemon, err = admintest.Start(ctx, filepath.Dir(ts.MkAbs(append(args, "x")[1])), opt)
		ts.Check(err)
		ts.Setenv("AGENTD_SOCKET", d.Socket)
		ts.Defer(func() {
			_ = d.Stop()
			_ = d.close()
		})
	case len(args) == 1 && args[0] == "stop":
		ts.Check(d.Stop())
	case len(args) == 1 && args[0] == "close":
		ts.Check(d.close())
	default:
		ts.Fatalf("usage: daemon start [CHECKPOINT] | daemon stop | daemon close")
	}
}

// cmdExits is "exits CODE COMMAND…": the command has to end with that very code.
func cmdExits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// kernelID is the ID of SESSION/HOST.
func kernelID(ref string) string {
	session, host, _ := strings.Cut(ref, "/")
	return intake.KernelID(intake.SessionID(session), host)
}

// cmdEnd is "end SESSION/HOST CODE": the kernel's main process ends.
func cmdEnd(ts *testscript.TestScript, _ bool, args []string) {
	code, err := strconv.Atoi(args[1])
	ts.Check(err)
	if !daemonOf(ts).World.Exit(kernelID(args[0]), code) {
		ts.Fatalf("%s does not run", args[0])
	}
}

// cmdVanish is "vanish SESSION/HOST": somebody removes the container by hand.
func cmdVanish(ts *testscript.TestScript, _ bool, args []string) {
	if daemonOf(ts).World.Vanish(kernelID(args[0])) == "" {
		ts.Fatalf("%s has no container", args[0])
	}
}

// cmdWriteLog is "writelog SESSION/HOST TEXT": its container writes a line.
func cmdWriteLog(ts *testscript.TestScript, _ bool, args []string) {
	d := daemonOf(ts)
	for _, c := range d.World.Containers() {
		if c.KernelID == kernelID(args[0]) {
			d.Logs.Append(c.ID, strings.Join(args[1:], " ")+"\n")
			return
		}
	}
	ts.Fatalf("%s has no container", args[0])
}

// cmdLeftover is "! leftover": nothing is left on the node.
func cmdLeftover(ts *testscript.TestScript, neg bool, _ []string) {
	w := daemonOf(ts).World
	n := len(w.Containers()) + len(w.Networks()) + len(w.Scratches())
	if (n > 0) == neg {
		ts.Fatalf("%d things on the node: %v %v %v", n, w.Containers(), w.Networks(), w.Scratches())
	}
}
