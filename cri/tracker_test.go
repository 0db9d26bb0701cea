package cri

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

// layersOf makes an image whose layers have these names and 100 bytes each.
func layersOf(names ...string) Image {
	img := Image{Digest: digest.FromString("image")}
	for i, n := range names {
		img.Layers = append(img.Layers, Layer{
			Digest: digest.FromString(n), Size: 100, ChainID: digest.FromString(n + string(rune('0'+i))),
		})
	}
	return img
}

func sights(here int64, state LayerState, n int) []sight {
	s := make([]sight, n)
	for i := range s {
		s[i] = sight{here: here, state: state}
	}
	return s
}

func TestALayerThatOccursTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	img := layersOf("a", "b", "a", "a")
	now := time.Unix(0, 0)
	tr := newTracker(img, "x", sights(0, LayerWaiting, 4), now)
	if tr.progress.Bytes.Total != 200 {
		t.Errorf("total %d, want 200", tr.progress.Bytes.Total)
	}
	seen := sights(0, LayerWaiting, 4)
	seen[0] = sight{here: 60, state: LayerFetching}
	tr.observe(seen, now.Add(time.Second))
	if p := tr.progress; p.Bytes.Fetched != 60 || p.Layers[2].Fetched != 60 {
		t.Errorf("fetched %d, second occurrence %d, want 60 and 60", p.Bytes.Fetched, p.Layers[2].Fetched)
	}
	tr.observe(sights(100, LayerDone, 4), now.Add(2*time.Second))
	if p := tr.progress; p.Bytes.Missing() != 0 || p.Bytes.Fraction() != 1 || p.Bytes.Fetched != 200 {
		t.Errorf("at the end: %+v", p.Bytes)
	}
}

func TestWhatWasHereIsPresentAndNotFetched(t *testing.T) {
	t.Parallel()
	seen := sights(0, LayerWaiting, 3)
	seen[0] = sight{here: 100, state: LayerDone}
	seen[1] = sight{here: 40, state: LayerFetching} // what an earlier try had fetched
	tr := newTracker(layersOf("a", "b", "c"), "x", seen, time.Unix(0, 0))
	if b := tr.progress.Bytes; b != (Bytes{Total: 300, Present: 140}) {
		t.Errorf("%+v, want 140 of 300 present", b)
	}
	seen[1].here = 90
	tr.observe(seen, time.Unix(1, 0))
	if b := tr.progress.Bytes; b.Fetched != 50 || b.Missing() != 110 {
		t.Errorf("%+v, want 50 fetched and 110 missing", b)
	}
}

func TestRateAndTimeLeft(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	tr := newTracker(layersOf("a", "b"), "x", sights(0, LayerWaiting, 2), now)
	for i := range int64(5) {
		seen := sights(0, LayerWaiting, 2)
		seen[0] = sight{here: 10 * (i + 1), state: LayerFetching}
		tr.observe(seen, now.Add(time.Duration(i+1)*time.Second))
	}
	if p := tr.progress; p.Rate != 10 || p.ETASeconds == nil || *p.ETASeconds != 15 {
		t.Errorf("rate %v, time left %v, want 10 bytes/s and 15 s", p.Rate, p.ETASeconds)
	}
	stalled := tr.progress.Layers[0].Fetched
	for i := range 20 {
		seen := sights(0, LayerWaiting, 2)
		seen[0] = sight{here: stalled, state: LayerFetching}
		tr.observe(seen, now.Add(time.Duration(6+i)*time.Second))
	}
	if p := tr.progress; p.Rate != 0 || p.ETASeconds != nil {
		t.Errorf("stalled: rate %v, time left %v, want none", p.Rate, p.ETASeconds)
	}
	tr.observe(sights(100, LayerFetched, 2), now.Add(time.Minute))
	if p := tr.progress; p.Phase != PhaseUnpacking || p.Rate != 0 || p.ETASeconds != nil {
		t.Errorf("all fetched: phase %s, rate %v, time left %v", p.Phase, p.Rate, p.ETASeconds)
	}
}

func TestObserveTellsWhetherAnythingChanged(t *testing.T) {
	t.Parallel()
	tr := newTracker(layersOf("a"), "x", sights(0, LayerWaiting, 1), time.Unix(0, 0))
	if tr.observe(sights(0, LayerWaiting, 1), time.Unix(1, 0)) {
		t.Error("nothing changed, and it says so")
	}
	before := tr.progress
	if !tr.observe(sights(0, LayerFetching, 1), time.Unix(2, 0)) {
		t.Error("a layer's state changed, and it does not say so")
	}
	if before.Layers[0].State != LayerWaiting {
		t.Error("a progress that was handed out changed afterwards")
	}
	if since := tr.progress.Layers[0].Since; since != time.Unix(2, 0) {
		t.Errorf("state since %v, want the moment of the change", since)
	}
}

// Whatever is seen, in whatever order, progress does not go back and does not pass the size.
func TestProgressIsMonotone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		img := layersOf("a", "b", "a", "c")
		tr := newTracker(img, "x", sights(0, LayerWaiting, 4), time.Unix(0, 0))
		last := tr.progress
		for step := range int64(60) {
			seen := sights(0, LayerWaiting, 4)
			for i := range seen {
				seen[i] = sight{here: rnd.Int64N(150), state: layerStates[rnd.IntN(len(layerStates))]}
			}
			tr.observe(seen, time.Unix(step, 0))
			p := tr.progress
			if p.Bytes.Fetched < last.Bytes.Fetched || p.Bytes.Present+p.Bytes.Fetched > p.Bytes.Total {
				t.Fatalf("seed %d: %+v after %+v", seed, p.Bytes, last.Bytes)
			}
			for i, l := range p.Layers {
				if l.State.Before(last.Layers[i].State) || l.Fetched < last.Layers[i].Fetched || l.Fetched > l.Size {
					t.Fatalf("seed %d: layer %d %+v after %+v", seed, i, l, last.Layers[i])
				}
			}
			if !CanMove(last.Phase, p.Phase) {
				t.Fatalf("seed %d: phase %s after %s", seed, p.Phase, last.Phase)
			}
			last = p
		}
	}
}

func TestLeaseNames(t *testing.T) {
	t.Parallel()
	if got := leaseName("sagemaker-distribution-cpu"); got != "sagemaker-distribution-cpu" {
		t.Errorf("a configured name becomes %q", got)
	}
	a, b := leaseName("r.io/a:1"), leaseName("r.io/a:2")
	if a == b || len(a) != len("reference-")+12 || a != leaseName("r.io/a:1") {
		t.Errorf("references become %q and %q: want two short and stable names", a, b)
	}
}

func TestSnapshotterIsTheOneOfTheImageFileSystem(t *testing.T) {
	t.Parallel()
	roots := map[string]string{"overlayfs": "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs", "soci": "/var/lib/soci"}
	for fs, want := range map[string]string{
		"/var/lib/soci/": "soci",
		"/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs": "overlayfs",
		"/elsewhere/io.containerd.snapshotter.v1.native":             "native",
		"":         "overlayfs",
		"/unknown": "overlayfs",
	} {
		if got := snapshotterOf(fs, roots); got != want {
			t.Errorf("%q: %s, want %s", fs, got, want)
		}
	}
}

func TestStatusOfContainerd17(t *testing.T) {
	t.Parallel()
	c := parseStatusConfig(`{"containerd":{"snapshotter":"soci","discardUnpackedLayers":true},"registry":{"configPath":"/etc/containerd/certs.d"}}`)
	if c.Containerd.Snapshotter != "soci" || !c.Containerd.DiscardUnpackedLayers || c.Registry.ConfigPath != "/etc/containerd/certs.d" {
		t.Errorf("%+v", c)
	}
	if c := parseStatusConfig(`not JSON`); c != (statusConfig{}) {
		t.Errorf("nonsense gives %+v", c)
	}
}

// When the last byte came is told while bytes are missing, whatever else changes.
func TestWhenTheLastByteCame(t *testing.T) {
	t.Parallel()
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	tr := newTracker(layersOf("a", "b"), "x", sights(0, LayerWaiting, 2), at(1))
	steps := []struct {
		here int64
		now  int64
		want time.Time
	}{
		{0, 5, at(1)}, {10, 6, at(6)}, {10, 60, at(6)}, {11, 61, at(61)}, {100, 70, time.Time{}},
	}
	for _, s := range steps {
		tr.observe(sights(s.here, LayerFetching, 2), at(s.now))
		if got := tr.progress.ByteAt; !got.Equal(s.want) {
			t.Errorf("at %d with %d bytes: %v, want %v", s.now, s.here, got, s.want)
		}
	}
}
