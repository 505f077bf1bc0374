// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"agentd/pkg/apis"
	"agentd/pkg/controller"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		m := controller.NewMetrics(reg)
		s := controller.NewStore(m)
		table := controller.NewTable[boxSpec, boxStatus](s, boxKind, false)
		var work controller.Work
		c := controller.New(boxKind, controller.ReconcilerFunc(func(_ context.Context, name string) (controller.Result, error) {
			switch name {
			case "bad":
				return controller.Result{}, apis.Terminalf(apis.ReasonInvalid, "no")
			case "late":
				if b, _ := table.Reader().Get(name); b.Status.Phase == "" {
					return controller.Result{}, errors.Join(errors.New("not yet"), s.Commit(func(tx *tx) error {
						return table.StatusWriter().Observe(tx, name, func(_ *apis.Meta, st *boxStatus) { st.Phase = "seen" })
					}))
				}
			}
			return controller.Result{}, nil
		}), &work, controller.Options{Metrics: m})
		c.Attach(s)
		for _, n := range []string{"good", "bad", "late"} {
			if err := s.Commit(func(tx *tx) error { return table.SpecWriter().Apply(tx, apis.Meta{Name: n}, boxSpec{}) }); err != nil {
				t.Fatal(err)
			}
		}
		families := gather(t, reg)
		diff(t, 3.0, families["agentd_queue_depth"].Metric[0].GetGauge().GetValue())
		start(t, c)
		settle(t, &work)
		families = gather(t, reg)
		got := map[string]float64{}
		for _, x := range families["agentd_reconcile_total"].Metric {
			got[x.Label[0].GetValue()+" "+x.Label[1].GetValue()] = x.GetCounter().GetValue()
		}
		diff(t, map[string]float64{"box success": 2, "box error": 1, "box terminal": 1}, got)
		diff(t, uint64(4), families["agentd_reconcile_duration_seconds"].Metric[0].GetHistogram().GetSampleCount())
		diff(t, uint64(4), families["agentd_store_commit_duration_seconds"].Metric[0].GetHistogram().GetSampleCount())
		diff(t, 3.0, families["agentd_store_objects"].Metric[0].GetGauge().GetValue())
		diff(t, 0.0, families["agentd_queue_depth"].Metric[0].GetGauge().GetValue())
		for name, f := range families {
			for _, x := range f.Metric {
				for _, l := range x.Label {
					if !strings.Contains("kind result", l.GetName()) {
						t.Errorf("%s has a label %s", name, l.GetName())
					}
				}
			}
		}
	})
}

func gather(t *testing.T, reg *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range all {
		out[f.GetName()] = f
	}
	return out
}
