package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// state reads the gauges from the state whenever they are asked for, so that they agree with each other.
type state struct {
	get     func() status.Snapshot
	now     func() time.Time
	version string

	info, nodeReady, imageReady, pinned, phase, bytes, idle, disk, generation *prometheus.Desc
}

var _ prometheus.Collector = (*state)(nil)

func newState(docs map[string]Doc, o Options) *state {
	desc := func(name string) *prometheus.Desc {
		return prometheus.NewDesc(name, docs[name].Help, docs[name].Labels, nil)
	}
	return &state{
		get: o.State, now: o.Now, version: o.Version,
		info:       desc("prewarm_build_info"),
		nodeReady:  desc("prewarm_node_ready"),
		imageReady: desc("prewarm_image_ready"),
		pinned:     desc("prewarm_image_pinned"),
		phase:      desc("prewarm_image_phase"),
		bytes:      desc("prewarm_pull_bytes"),
		idle:       desc("prewarm_pull_idle_seconds"),
		disk:       desc("prewarm_disk_bytes"),
		generation: desc("prewarm_config_generation"),
	}
}

// Describe implements prometheus.Collector.
func (s *state) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.info, s.nodeReady, s.imageReady, s.pinned, s.phase, s.bytes, s.idle, s.disk, s.generation} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (s *state) Collect(out chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		m, err := prometheus.NewConstMetric(d, prometheus.GaugeValue, value, labels...)
		if err != nil {
			m = prometheus.NewInvalidMetric(d, err) // the scrape says so
		}
		out <- m
	}
	now := s.get()
	set(s.info, 1, s.version)
	set(s.nodeReady, one(now.Ready))
	set(s.generation, float64(now.Configuration.Generation))
	for _, i := range now.Images {
		set(s.imageReady, one(i.Readiness() == status.Ready), i.Image)
		set(s.pinned, one(i.Pinned), i.Image)
		for _, p := range cri.Phases() {
			set(s.phase, one(i.Phase == p), i.Image, string(p))
		}
		if i.Room != (status.Room{}) {
			set(s.disk, float64(i.Room.Need), i.Image, "need")
			set(s.disk, float64(i.Room.Free), i.Image, "free")
			set(s.disk, float64(i.Room.Keep), i.Image, "keep")
		}
		idle := 0.0
		if i.Phase == cri.PhasePulling && !i.ByteAt.IsZero() {
			idle = s.now().Sub(i.ByteAt).Seconds()
		}
		set(s.idle, idle, i.Image)
		if i.Bytes.Total > 0 {
			set(s.bytes, float64(i.Bytes.Total), i.Image, "total")
			set(s.bytes, float64(i.Bytes.Present), i.Image, "present")
			set(s.bytes, float64(i.Bytes.Fetched), i.Image, "fetched")
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
