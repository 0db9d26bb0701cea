// Package metrics has every metric of the agent. Gauges are read from the state at scrape time; counters are told by the
// agent as things happen.
package metrics

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// Doc is what there is to know about a metric.
type Doc struct {
	Name, Type string
	Labels     []string
	Help       string
}

// The types of metrics.
const (
	gauge     = "gauge"
	counter   = "counter"
	histogram = "histogram"
)

// Docs lists every metric of the agent; beside these, the Go runtime's and the process's own are served (go_…,
// process_…). Of the labels only image and reason are open: as many images as the configuration names, and the reasons
// that package cri lists.
func Docs() []Doc {
	return []Doc{
		{"prewarm_build_info", gauge, []string{"version"}, "Always 1; says which version of prewarm runs."},
		{"prewarm_node_ready", gauge, nil, "1 while every required image of this node is ready, else 0."},
		{"prewarm_image_ready", gauge, []string{"image"}, "1 while the image is ready, else 0."},
		{"prewarm_image_phase", gauge, []string{"image", "phase"}, "1 for the phase that the image is in, 0 for the others."},
		{"prewarm_pull_bytes", gauge, []string{"image", "kind"}, "Compressed bytes of the image's layers in the running or last pull: total, present (needed no fetching) and fetched."},
		{"prewarm_pull_idle_seconds", gauge, []string{"image"}, "Seconds since the last byte of the running pull arrived; 0 while nothing is being fetched."},
		{"prewarm_pull_seconds", histogram, []string{"image", "result"}, "How long pulls took, from their start to their end."},
		{"prewarm_pulls_total", counter, []string{"image", "result", "reason"}, "Pulls that have ended: success, failure or canceled. The reason of a success is empty."},
		{"prewarm_pull_fetched_bytes_total", counter, []string{"image"}, "Compressed bytes that pulls have fetched."},
		{"prewarm_images_lost_total", counter, []string{"image", "reason"}, "Times that an image was ready and then was not."},
		{"prewarm_disk_bytes", gauge, []string{"image", "kind"}, "What the last look at the disk before a pull found: need of the pull, free, and keep, which must stay free."},
		{"prewarm_image_pinned", gauge, []string{"image"}, "1 while kubelet and containerd are kept from deleting the image, else 0."},
		{"prewarm_pins_restored_total", counter, []string{"image"}, "Times that a pin was gone and has been set again."},
		{"prewarm_refreshes_total", counter, []string{"image", "reason"}, "Questions to the registry what a reference means now. The reason is empty where what it named is ready."},
		{"prewarm_api_writes_total", counter, []string{"object", "result"}, "Writes to the API server (node, node/status, pod, pod/status, event): success, conflict, forbidden, missing or failure."},
		{"prewarm_failed_open_total", counter, nil, "Times that the startup taint was taken off a node whose images were not ready (startupTaint.failOpenAfter)."},
		{"prewarm_config_generation", gauge, nil, "Generation of the configuration in force; 0 while there is none."},
		{"prewarm_config_reloads_total", counter, []string{"result"}, "Configurations that were taken (success) or refused (failure)."},
		{"prewarm_runtime_reconnects_total", counter, nil, "Times that the container runtime's stream of events broke."},
	}
}

// The values of the label result.
const (
	success  = "success"
	failure  = "failure"
	canceled = "canceled"
)

// buckets are those of prewarm_pull_seconds: from a layer that was missing to tens of gigabytes on a slow disk.
func buckets() []float64 {
	return []float64{1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600}
}

// Options says what metrics are about.
type Options struct {
	// Version is that of prewarm.
	Version string
	// State gives the newest state.
	State func() status.Snapshot
	// Now is the clock: time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

// Metrics counts what happens and serves /metrics from a registry of its own.
type Metrics struct {
	now      func() time.Time
	log      *slog.Logger
	registry *prometheus.Registry

	seconds                      *prometheus.HistogramVec
	pulls, fetched, lost, writes *prometheus.CounterVec
	reloads, pins, refreshes     *prometheus.CounterVec
	reconnects, failedOpen       prometheus.Counter
}

// New makes metrics that stand at zero. The error tells of a fault in the table of metrics.
func New(o Options) (*Metrics, error) {
	docs := map[string]Doc{}
	for _, d := range Docs() {
		docs[d.Name] = d
	}
	counters := func(name string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: docs[name].Help}, docs[name].Labels)
	}
	m := &Metrics{
		now: o.Now, log: o.Logger, registry: prometheus.NewPedanticRegistry(),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prewarm_pull_seconds", Help: docs["prewarm_pull_seconds"].Help, Buckets: buckets(),
		}, docs["prewarm_pull_seconds"].Labels),
		pulls:   counters("prewarm_pulls_total"),
		fetched: counters("prewarm_pull_fetched_bytes_total"),
		lost:    counters("prewarm_images_lost_total"),
		writes:  counters("prewarm_api_writes_total"),
		reloads: counters("prewarm_config_reloads_total"), pins: counters("prewarm_pins_restored_total"), refreshes: counters("prewarm_refreshes_total"),
	}
	reconnects := counters("prewarm_runtime_reconnects_total")
	failedOpen := counters("prewarm_failed_open_total")
	m.reconnects, m.failedOpen = reconnects.WithLabelValues(), failedOpen.WithLabelValues()
	for _, result := range []string{success, failure} { // a rate needs a zero to rise from
		m.reloads.WithLabelValues(result)
	}
	for _, c := range []prometheus.Collector{
		m.seconds, m.pulls, m.fetched, m.lost, m.writes, m.reloads, m.pins, m.refreshes, reconnects, failedOpen, newState(docs, o),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := m.registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return m, nil
}

// Gatherer gives all metrics.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Handler serves /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(m.log.Handler(), slog.LevelError), MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	})
}

// PullEnded counts a pull; reason is empty when it went well.
func (m *Metrics) PullEnded(last cri.Progress, reason cri.Reason) {
	result := failure
	switch reason {
	case "":
		result = success
	case cri.ReasonCanceled:
		result = canceled
	default:
	}
	m.pulls.WithLabelValues(last.Image, result, string(reason)).Inc()
	m.fetched.WithLabelValues(last.Image).Add(float64(max(0, last.Bytes.Fetched)))
	if !last.StartedAt.IsZero() {
		m.seconds.WithLabelValues(last.Image, result).Observe(max(0, m.now().Sub(last.StartedAt).Seconds()))
	}
}

// ImageLost counts an image that was ready and is not any more.
func (m *Metrics) ImageLost(name string, reason cri.Reason) {
	m.lost.WithLabelValues(name, string(reason)).Inc()
}

// PinRestored counts a pin that was gone and has been set again.
func (m *Metrics) PinRestored(name string) { m.pins.WithLabelValues(name).Inc() }

// Refreshed counts a question to the registry; reason is empty where what it named is ready.
func (m *Metrics) Refreshed(name string, reason cri.Reason) {
	m.refreshes.WithLabelValues(name, string(reason)).Inc()
}

// APIWrite counts a write to the API server. Object is its kind in lower case, result one of those that
// prewarm_api_writes_total documents.
func (m *Metrics) APIWrite(object, result string) { m.writes.WithLabelValues(object, result).Inc() }

// ConfigurationLoaded counts a configuration; err is why it was refused.
func (m *Metrics) ConfigurationLoaded(err error) {
	result := success
	if err != nil {
		result = failure
	}
	m.reloads.WithLabelValues(result).Inc()
}

// RuntimeReconnected counts a stream of events of the container runtime that broke.
func (m *Metrics) RuntimeReconnected() { m.reconnects.Inc() }

// FailedOpen counts that the startup taint was taken off a Node whose images are not ready.
func (m *Metrics) FailedOpen() { m.failedOpen.Inc() }
