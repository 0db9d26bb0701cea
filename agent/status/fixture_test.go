package status

import (
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

var errTest = errors.New("on purpose")

func newStore(t *testing.T) *Store {
	t.Helper()
	return New(StoreOptions{Node: "worker-1", Source: "/etc/prewarm/config.yaml", Now: time.Now})
}

func entry(t *testing.T, name, reference string) config.Image {
	t.Helper()
	ref, err := cri.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	return config.Image{Name: name, Reference: ref, Required: true}
}

func optional(i config.Image) config.Image {
	i.Required = false
	return i
}

// configured is a store with a connected runtime and a good configuration.
func configured(t *testing.T, images ...config.Image) *Store {
	t.Helper()
	s := newStore(t)
	s.SetRuntime(cri.Info{Name: "containerd", Version: "2.4.2", Detail: cri.DetailLayers}, nil)
	s.SetConfiguration(config.Update{Configuration: config.Default(), Generation: 1})
	s.SetImages(images)
	return s
}

// move takes an image through phases; a refused move fails the test.
func move(t *testing.T, s *Store, name string, phases ...cri.Phase) {
	t.Helper()
	for _, p := range phases {
		reach(t, s, name, p, "")
	}
}

func reach(t *testing.T, s *Store, name string, phase cri.Phase, reason cri.Reason) {
	t.Helper()
	if err := s.Update(name, func(p *ImageStatus) { p.Phase, p.Reason = phase, reason }); err != nil {
		t.Fatal(err)
	}
}

// warm makes an image ready as one that was there when the agent came.
func warm(t *testing.T, s *Store, name string) {
	t.Helper()
	move(t, s, name, cri.PhaseResolving, cri.PhaseVerifying)
	if err := s.Update(name, func(p *ImageStatus) {
		p.Phase, p.Digest = cri.PhaseReady, digest.FromString(name)
	}); err != nil {
		t.Fatal(err)
	}
}

func newHandler(s *Store, with ...func(*HandlerOptions)) http.Handler {
	o := HandlerOptions{
		Store: s, Now: time.Now, Healthy: func() error { return nil }, Logger: slog.New(slog.DiscardHandler),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics\n")) }),
	}
	for _, f := range with {
		f(&o)
	}
	return NewHandler(o)
}
