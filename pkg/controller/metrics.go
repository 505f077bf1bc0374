// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agentd/pkg/apis"
)

// Metrics measures store and controllers. Labels are kinds and results, never
// names. A nil *Metrics measures nothing.
type Metrics struct {
	reconciles *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	depths     *prometheus.GaugeVec
	objects    *prometheus.GaugeVec
	commits    prometheus.Histogram
}

// NewMetrics registers the metrics with reg; it panics if they are there already.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		reconciles: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agentd_reconcile_total",
			Help: "Passes of the reconcilers by kind and result (success, error, terminal).",
		}, []string{"kind", "result"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "agentd_reconcile_duration_seconds",
			Help:    "Time that a pass took, by kind.",
			Buckets: prometheus.ExponentialBuckets(1e-5, 4, 12), // 10 µs to 42 s
		}, []string{"kind"}),
		depths: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "agentd_queue_depth",
			Help: "Names that wait for a worker, by kind.",
		}, []string{"kind"}),
		objects: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "agentd_store_objects",
			Help: "Objects in the store, by kind.",
		}, []string{"kind"}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "agentd_store_commit_duration_seconds",
			Help:    "Time that a commit took until it was durable and known.",
			Buckets: prometheus.ExponentialBuckets(1e-5, 4, 12),
		}),
	}
	reg.MustRegister(m.reconciles, m.durations, m.depths, m.objects, m.commits)
	return m
}

// Committed implements [Recorder].
func (m *Metrics) Committed(seconds float64) {
	if m != nil {
		m.commits.Observe(seconds)
	}
}

// Objects implements [Recorder].
func (m *Metrics) Objects(kind apis.Kind, n int) {
	if m != nil {
		m.objects.WithLabelValues(string(kind)).Set(float64(n))
	}
}

// results of a pass, as the metrics call them.
type passResult int

const (
	passSuccess passResult = iota
	passError
	passTerminal
	passResults
)

func resultOf(o outcome) passResult {
	switch {
	case o.terminal:
		return passTerminal
	case o.err != nil:
		return passError
	}
	return passSuccess
}

// meter is what one controller measures; the zero value measures nothing.
type meter struct {
	results  [passResults]prometheus.Counter
	duration prometheus.Observer
	queue    prometheus.Gauge
}

func (m *Metrics) meter(kind apis.Kind) meter {
	if m == nil {
		return meter{}
	}
	k := string(kind)
	return meter{
		results: [passResults]prometheus.Counter{
			passSuccess:  m.reconciles.WithLabelValues(k, "success"),
			passError:    m.reconciles.WithLabelValues(k, "error"),
			passTerminal: m.reconciles.WithLabelValues(k, "terminal"),
		},
		duration: m.durations.WithLabelValues(k),
		queue:    m.depths.WithLabelValues(k),
	}
}

func (m *meter) done(r passResult, d time.Duration) {
	if m.duration != nil {
		m.results[r].Inc()
		m.duration.Observe(d.Seconds())
	}
}

func (m *meter) depth(n int) {
	if m.queue != nil {
		m.queue.Set(float64(n))
	}
}
