// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"os"
	"syscall"

	"agentd/pkg/apis/record"
)

// Signals are those that the runner wants to hear of.
func Signals() []os.Signal {
	return append([]os.Signal{syscall.SIGTERM, syscall.SIGINT}, forwarded()...)
}

// forwarded are the signals that the kernel's own command gets in our place.
func forwarded() []os.Signal {
	return []os.Signal{
		syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGWINCH, syscall.SIGCONT,
	}
}

// watchSignals ends the run at the first stop signal and passes the others on.
func (r *run) watchSignals(stop context.CancelCauseFunc) {
	for sig := range r.Signals {
		switch sig {
		case syscall.SIGTERM, syscall.SIGINT:
			r.board.Update(func(s *record.StatusPayload) { s.Ready, s.Stage = false, record.StageStopping })
			stop(errStopped)
		default:
			if number, ok := sig.(syscall.Signal); ok {
				r.jobs.signal(number)
			}
		}
	}
}
