// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
	"agentd/pkg/reconciler"
	"agentd/pkg/runtime"
	"agentd/pkg/runtime/fake"
)

// Exit codes of "agentd reconcile --once".
const (
	exitPlanned      = 2 // --dry-run: there is something to do
	exitNotConverged = 3 // ran, and something is still wrong
)

type reconcileFlags struct {
	once, dryRun, sweep bool
	timeout             time.Duration
	output              string
}

func newReconcileCommand(s streams, g *globals) *cobra.Command {
	f := reconcileFlags{}
	cmd := &cobra.Command{
		Use:   "reconcile --once",
		Short: "Repair the node once, without the daemon",
		Long: `Make the node look like the checkpoint says, once, with the same controllers
that the daemon runs, then print what was done and what is still wrong.

The daemon must be stopped: the lock on the checkpoint tells. With --dry-run the
controllers run against a copy of the node in memory; nothing real is touched.

Exit codes:
  0  converged; with --dry-run: nothing to do
  1  could not run: bad flags or configuration, no engine, checkpoint in use
  2  with --dry-run: there is something to do
  3  ran, but objects are not ready, or time ran out`,
		Example: `  agentd reconcile --once --dry-run
  agentd reconcile --once --timeout 5m -o yaml
  agentd reconcile --once --sweep     # also remove what an earlier start left alone`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Not a usage error: its exit code 2 has a meaning of its own here.
			switch {
			case !f.once:
				return errors.New("reconcile needs --once; the daemon (agentd run) reconciles all the time")
			case !slices.Contains([]string{"", "json", "yaml"}, f.output):
				return fmt.Errorf("output format %q: known are yaml and json", f.output)
			case f.timeout <= 0:
				return fmt.Errorf("--timeout %s: a time such as 5m is needed", f.timeout)
			}
			return runReconcile(cmd.Context(), s, g, f)
		},
	}
	g.addConfigFlag(cmd)
	cmd.Flags().BoolVar(&f.once, "once", false, "reconcile once and exit (required)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be done; touch nothing")
	cmd.Flags().BoolVar(&f.sweep, "sweep", false, "also remove what was left alone because it could not be recognised")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 2*time.Minute, "give up after this time")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "output format: yaml or json")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return err })
	return cmd
}

func runReconcile(ctx context.Context, s streams, g *globals, f reconcileFlags) error {
	cfg, _, err := g.loadConfig(s)
	if err != nil {
		return err
	}
	log, flush := newLogger(cfg, g.logLevelOr("ERROR"), s.err)
	defer flush()
	m, err := newMachine(cfg, log, f.dryRun)
	if err != nil {
		return err
	}
	defer func() { _ = m.engine.Close() }()
	durable, intact, err := openState(checkpointPath(cfg), f.dryRun)
	if err != nil {
		return err
	}
	defer func() { _ = durable.Close() }()

	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	node := m.node
	if f.dryRun {
		world, err := fake.CopyOf(ctx, m.node)
		if err != nil {
			return err
		}
		node = world.Node()
	}
	journal := runtime.NewJournal()
	node = journal.Over(node)
	rep, err := reconcileOnce(ctx, m, durable, intact, node, f.sweep)
	if err != nil {
		return err
	}
	rep.addChanges(journal.Changes())
	rep.DryRun = f.dryRun
	if err := rep.print(s.out, f.output); err != nil {
		return err
	}
	return rep.exit()
}

// openState opens the checkpoint: itself, or for the dry run a copy in memory.
func openState(path string, dryRun bool) (controller.Durable, bool, error) {
	if dryRun {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return controller.NewMemory(), false, nil
		}
		cp, rep, err := controller.OpenCheckpoint(path, controller.CheckpointOptions{ReadOnly: true, LockTimeout: checkpointLockWait})
		if errors.Is(err, controller.ErrDamaged) { // set aside when it is for real
			return controller.NewMemory(), false, nil
		}
		if err != nil {
			return nil, false, err
		}
		defer func() { _ = cp.Close() }()
		mem, err := cp.Snapshot()
		return mem, !rep.Fresh && rep.Damaged == "", err
	}
	cp, rep, err := controller.OpenCheckpoint(path, controller.CheckpointOptions{LockTimeout: checkpointLockWait})
	if err != nil {
		return nil, false, err
	}
	return cp, !rep.Fresh && rep.Damaged == "", nil
}

// reconcileOnce runs the daemon's controllers until nothing is left to do.
func reconcileOnce(ctx context.Context, m *machine, durable controller.Durable, intact bool, node runtime.Node, sweep bool) (*onceReport, error) {
	store := controller.NewStore(nil)
	tables := controller.NewTables(store)
	loaded, err := store.Attach(durable)
	if err != nil {
		return nil, err
	}
	listed, err := node.Containers.List(ctx)
	if err != nil {
		return nil, err
	}
	b := &boot{node: node, agentID: m.agentID, log: m.log}
	m.facts.Engine = func() (string, string) { return "", "" }
	m.facts.Health = &reconciler.Health{}
	m.facts.Stays = b.leftovers
	b.set = m.newSet(store, tables, node, 0) // nobody else changes anything now: no grace is needed
	spec := apis.NodeSpec{AgentID: m.agentID, Version: version, StandAlone: !m.cfg.Manager.Enabled}
	if err := b.declareNode(spec, intact && len(loaded.Skipped) == 0); err != nil {
		return nil, err
	}
	before := eventNames(tables)
	if err := b.seen(ctx, listed); err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(ctx)
	wait := b.set.Start(run)
	defer func() { stop(); wait() }()
	settleErr := b.set.Work.Settle(ctx)
	if settleErr == nil && (b.complete() || sweep) {
		b.set.Sweep.Allow()
		if sweep {
			if err := b.sweepAll(); err != nil {
				return nil, err
			}
		}
		if listed, err = node.Containers.List(ctx); err == nil {
			err = b.seen(ctx, listed)
		}
		if err != nil {
			return nil, err
		}
		settleErr = errors.Join(settleErr, b.set.Work.Settle(ctx))
	}
	rep := newOnceReport(tables, before, b.leftovers())
	if settleErr != nil {
		rep.Wrong = append(rep.Wrong, "time ran out: "+settleErr.Error())
		for _, k := range b.set.Work.Open() {
			rep.Wrong = append(rep.Wrong, fmt.Sprintf("%s: still being worked on", k))
		}
	}
	return rep, nil
}

// sweepAll lets go of everything that was left alone and calls the state complete.
func (b *boot) sweepAll() error {
	if err := b.set.Sweep.ReleaseLeftAlone(); err != nil {
		return err
	}
	return b.set.Store.Commit(func(tx *controller.Tx) error {
		return b.setComplete(tx, true, "Swept", "an operator asked for the sweep")
	})
}
