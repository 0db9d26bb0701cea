package status

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

func TestReadinessOfANode(t *testing.T) {
	t.Parallel()
	image := func(phase cri.Phase, known, required bool) ImageStatus {
		return ImageStatus{Progress: cri.Progress{Phase: phase}, Known: known, Required: required}
	}
	ready, pulling, unseen := image(cri.PhaseReady, true, true), image(cri.PhasePulling, true, true), image(cri.PhaseResolving, false, true)
	cases := map[string]struct {
		configured bool
		images     []ImageStatus
		want       Readiness
	}{
		"no configuration":               {images: nil, want: Unknown},
		"none needed":                    {configured: true, want: Ready},
		"all ready":                      {configured: true, images: []ImageStatus{ready, ready}, want: Ready},
		"one is being pulled":            {configured: true, images: []ImageStatus{ready, pulling}, want: NotReady},
		"one has not been looked at":     {configured: true, images: []ImageStatus{ready, unseen}, want: Unknown},
		"one is enough to know it":       {configured: true, images: []ImageStatus{unseen, pulling}, want: NotReady},
		"optional ones do not count":     {configured: true, images: []ImageStatus{ready, image(cri.PhaseFailed, true, false)}, want: Ready},
		"optional, and not looked at":    {configured: true, images: []ImageStatus{image("", false, false)}, want: Ready},
		"ready, but entry under new eye": {configured: true, images: []ImageStatus{image(cri.PhaseReady, false, true)}, want: Unknown},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := (Snapshot{Configured: c.configured, Images: c.images}).Readiness(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestEveryPhaseButReadyIsNotReady(t *testing.T) {
	t.Parallel()
	for _, p := range cri.Phases() {
		want := NotReady
		if p == cri.PhaseReady {
			want = Ready
		}
		if got := (ImageStatus{Progress: cri.Progress{Phase: p}, Known: true}).Readiness(); got != want {
			t.Errorf("%s: got %q, want %q", p, got, want)
		}
	}
}

// TestJSON holds the form in which others read the state: a name that changes here breaks them.
func TestJSON(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 8, 23, 12, 0, 0, 0, time.UTC)
	s := New(StoreOptions{Node: "worker-1", Source: "config.yaml", Now: func() time.Time { return at }})
	s.SetRuntime(cri.Info{Name: "containerd", Version: "2.4.2", Endpoint: "unix:///c.sock", ImageEndpoint: "unix:///c.sock", Detail: cri.DetailLayers, Snapshotter: "overlayfs"}, nil)
	s.SetConfiguration(config.Update{Generation: 3})
	s.SetImages([]config.Image{entry(t, "cpu", "reg.example/cpu:1")})
	if err := s.Update("cpu", func(p *ImageStatus) {
		p.Phase, p.Detail, p.StartedAt = cri.PhaseResolving, cri.DetailLayers, at
		p.Bytes, p.Rate, p.ETASeconds = cri.Bytes{Total: 100, Present: 10, Fetched: 20}, 5, new(14.0)
		p.Layers = []cri.LayerProgress{{Digest: "sha256:aa", ChainID: "sha256:bb", Size: 100, Fetched: 30, State: cri.LayerFetching}}
	}); err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(s.Get(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "node": "worker-1",
 "standalone": false,
 "ready": false,
 "configured": true,
 "runtime": {
  "name": "containerd",
  "version": "2.4.2",
  "endpoint": "unix:///c.sock",
  "imageEndpoint": "unix:///c.sock",
  "progress": "layers",
  "snapshotter": "overlayfs",
  "discardsLayers": false
 },
 "configuration": {
  "source": "config.yaml",
  "generation": 3,
  "loadedAt": "2026-08-23T12:00:00Z"
 },
 "images": [
  {
   "image": "cpu",
   "reference": "reg.example/cpu:1",
   "phase": "resolving",
   "progress": "layers",
   "bytes": {
    "total": 100,
    "present": 10,
    "fetched": 20
   },
   "rate": 5,
   "etaSeconds": 14,
   "layers": [
    {
     "digest": "sha256:aa",
     "chainID": "sha256:bb",
     "size": 100,
     "fetched": 30,
     "state": "fetching"
    }
   ],
   "startedAt": "2026-08-23T12:00:00Z",
   "required": true,
   "known": false,
   "pinned": false
  }
 ],
 "updatedAt": "2026-08-23T12:00:00Z"
}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON differs (-want +got):\n%s", diff)
	}
}

func TestImagesIsNeverNull(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, when := range []string{"at first", "with no image needed"} {
		b, err := json.Marshal(s.Get())
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if string(got["images"]) != "[]" {
			t.Errorf("%s: images is %s", when, got["images"])
		}
		s.SetImages(nil)
	}
}

func TestChangedSince(t *testing.T) {
	t.Parallel()
	image := func(name string, phase cri.Phase) ImageStatus {
		return ImageStatus{Progress: cri.Progress{Image: name, Phase: phase, Layers: []cri.LayerProgress{{Size: 1}}}}
	}
	base := Snapshot{Images: []ImageStatus{image("a", cri.PhaseWaiting), image("b", cri.PhaseWaiting)}}
	with := func(f func(*Snapshot)) Snapshot {
		s := base
		s.Images = append([]ImageStatus{}, base.Images...)
		f(&s)
		return s
	}
	cases := map[string]struct {
		now    Snapshot
		images []string
		rest   bool
	}{
		"nothing":          {now: with(func(*Snapshot) {})},
		"only the time":    {now: with(func(s *Snapshot) { s.UpdatedAt = time.Unix(1, 0) })},
		"one image":        {now: with(func(s *Snapshot) { s.Images[1].Rate = 3 }), images: []string{"b"}},
		"a layer":          {now: with(func(s *Snapshot) { s.Images[0].Layers = []cri.LayerProgress{{Size: 1, Fetched: 1}} }), images: []string{"a"}},
		"two images":       {now: with(func(s *Snapshot) { s.Images[0].Rate, s.Images[1].Rate = 1, 1 }), images: []string{"a", "b"}},
		"the rest":         {now: with(func(s *Snapshot) { s.RuntimeError = "x" }), rest: true},
		"both":             {now: with(func(s *Snapshot) { s.Ready, s.Images[0].Phase = true, cri.PhaseReady }), images: []string{"a"}, rest: true},
		"an image more":    {now: with(func(s *Snapshot) { s.Images = append(s.Images, image("c", "")) }), rest: true},
		"an image less":    {now: with(func(s *Snapshot) { s.Images = s.Images[:1] }), rest: true},
		"in another order": {now: with(func(s *Snapshot) { s.Images[0], s.Images[1] = s.Images[1], s.Images[0] }), rest: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			images, rest := c.now.changedSince(base)
			var names []string
			for _, i := range images {
				names = append(names, i.Image)
			}
			if diff := cmp.Diff(c.images, names); diff != "" || rest != c.rest {
				t.Errorf("rest %v, want %v; images differ (-want +got):\n%s", rest, c.rest, diff)
			}
		})
	}
}
