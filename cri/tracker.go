package cri

import (
	"maps"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
)

// rateWindow is the time over which Rate is measured: long enough to be calm, short enough to show a stall.
const rateWindow = 8 * time.Second

// tracker turns what is seen of an image, look by look, into progress that never goes back.
type tracker struct {
	progress Progress
	// present is how many bytes of each distinct layer were here when the pull began.
	present map[digest.Digest]int64
	samples []sample
}

// sample is how many bytes had been fetched at a moment.
type sample struct {
	at      time.Time
	fetched int64
}

func newTracker(img Image, name string, seen []sight, now time.Time) *tracker {
	t := &tracker{
		progress: Progress{
			Image: name, Reference: img.Reference.String(), Digest: img.Digest, Phase: PhasePulling,
			Detail: DetailLayers, StartedAt: now, Bytes: Bytes{Total: img.Size()}, ByteAt: now,
		},
		present: map[digest.Digest]int64{},
	}
	for i, l := range img.Layers {
		t.progress.Layers = append(t.progress.Layers, LayerProgress{
			Digest: l.Digest, ChainID: l.ChainID, Size: l.Size, State: LayerWaiting, Since: now,
		})
		t.present[l.Digest] = max(t.present[l.Digest], seen[i].here)
	}
	for _, n := range t.present {
		t.progress.Bytes.Present += n
	}
	t.observe(seen, now)
	return t
}

// observe takes a look in and reports whether anything changed that a person would see.
func (t *tracker) observe(seen []sight, now time.Time) bool {
	before := t.progress
	p := &t.progress
	p.Layers = slices.Clone(p.Layers) // those who got the last progress keep it as it was
	here := maps.Clone(t.present)
	done := true
	for i := range p.Layers {
		l := &p.Layers[i]
		l.Fetched = min(l.Size, max(l.Fetched, seen[i].here))
		if l.State.Before(seen[i].state) {
			l.State, l.Since = seen[i].state, now
		}
		if !l.State.Before(LayerFetched) {
			l.Fetched = l.Size
		}
		here[l.Digest] = max(here[l.Digest], l.Fetched)
		done = done && l.State == LayerDone
	}
	for i := range p.Layers { // the second occurrence of a layer is fetched with the first
		p.Layers[i].Fetched = here[p.Layers[i].Digest]
	}
	p.Bytes.Fetched = -p.Bytes.Present
	for _, n := range here {
		p.Bytes.Fetched += n
	}
	if p.Bytes.Fetched > before.Bytes.Fetched {
		p.ByteAt = now
	}
	if p.Bytes.Missing() == 0 {
		p.ByteAt = time.Time{}
	}
	t.measure(now)
	if p.Bytes.Missing() == 0 && !done {
		p.Phase = PhaseUnpacking
	}
	return before.Phase != p.Phase || before.Bytes != p.Bytes || !slices.Equal(before.Layers, p.Layers) || before.Rate != p.Rate
}

// measure computes rate and time left from the samples of the window.
func (t *tracker) measure(now time.Time) {
	p := &t.progress
	t.samples = append(t.samples, sample{at: now, fetched: p.Bytes.Fetched})
	for len(t.samples) > 2 && now.Sub(t.samples[1].at) >= rateWindow {
		t.samples = t.samples[1:]
	}
	p.Rate, p.ETASeconds = 0, nil
	first := t.samples[0]
	if span := now.Sub(first.at).Seconds(); span > 0 && p.Bytes.Missing() > 0 {
		p.Rate = float64(p.Bytes.Fetched-first.fetched) / span
	}
	if p.Rate > 0 {
		eta := float64(p.Bytes.Missing()) / p.Rate
		p.ETASeconds = &eta
	}
}
