// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"agentd/pkg/controller"
)

func TestStopAndGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work controller.Work
		var reports atomic.Int32
		calls := map[string]int{}
		c := controller.New(boxKind, controller.ReconcilerFunc(func(ctx context.Context, name string) (controller.Result, error) {
			calls[name]++
			if calls[name] > 1 {
				return controller.Result{}, nil
			}
			<-ctx.Done()
			return controller.Result{}, ctx.Err()
		}), &work, controller.Options{Report: func(string, error) { reports.Add(1) }})
		stop := start(t, c)
		c.Enqueue("a", "b")
		synctest.Wait()
		stop()
		diff(t, []string{"a", "b"}, c.Pending())
		diff(t, map[string]int{"a": 1}, calls) // b was not begun
		diff(t, int32(0), reports.Load())      // being stopped is no failure
		calls["b"]++
		start(t, c)
		settle(t, &work)
		diff(t, map[string]int{"a": 2, "b": 2}, calls)
	})
}

func TestTimeoutAndLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var work controller.Work
		var log strings.Builder
		var failed error
		first := true
		c := controller.New(boxKind, controller.ReconcilerFunc(func(ctx context.Context, _ string) (controller.Result, error) {
			logr.FromContextOrDiscard(ctx).Info("looking")
			if !first {
				return controller.Result{}, nil
			}
			first = false
			<-ctx.Done()
			return controller.Result{}, ctx.Err()
		}), &work, controller.Options{
			Timeout: 5 * time.Second,
			Report:  func(_ string, err error) { failed = err },
			Log:     funcr.New(func(_, args string) { log.WriteString(args + "\n") }, funcr.Options{}),
		})
		start(t, c)
		c.Enqueue("a")
		settle(t, &work)
		if !errors.Is(failed, context.DeadlineExceeded) {
			t.Error(failed)
		}
		if got := strings.Count(log.String(), `"msg"="looking" "kind"="box" "name"="a"`); got != 2 {
			t.Errorf("log:\n%s", &log)
		}
	})
}
