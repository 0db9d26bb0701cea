package status

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

// TestForbiddenMoves tries every pair of phases.
func TestForbiddenMoves(t *testing.T) {
	t.Parallel()
	for _, from := range append(cri.Phases(), "") {
		for _, to := range append(cri.Phases(), "invented") {
			s := configured(t, entry(t, "a", "reg.example/a:1"))
			s.now.Images = []ImageStatus{{Progress: cri.Progress{Image: "a", Phase: from}}}
			err := s.Update("a", func(p *ImageStatus) { p.Phase, p.Rate = to, 7 })
			got, _ := s.Get().Image("a")
			want := from
			if cri.CanMove(from, to) {
				want = to
			}
			if got.Phase != want || errors.Is(err, ErrForbiddenMove) == cri.CanMove(from, to) {
				t.Errorf("from %q to %q: phase %q, want %q; error %v", from, to, got.Phase, want, err)
			}
			if err != nil && got.Rate != 0 {
				t.Errorf("from %q to %q: refused, but partly taken over", from, to)
			}
		}
	}
}

func TestUpdateOfAnImageThatIsNotNeeded(t *testing.T) {
	t.Parallel()
	s := configured(t, entry(t, "a", "reg.example/a:1"))
	err := s.Update("b", func(*ImageStatus) { t.Error("asked") })
	if !errors.Is(err, ErrUnknownImage) {
		t.Errorf("got %v", err)
	}
}

// TestUpdateKeepsTheName covers a pull, whose progress replaces all there is.
func TestUpdateKeepsTheName(t *testing.T) {
	t.Parallel()
	s := configured(t, entry(t, "a", "reg.example/a:1"))
	if err := s.Update("a", func(p *ImageStatus) {
		*p = ImageStatus{Progress: cri.Progress{Image: "other", Phase: cri.PhaseWaiting}}
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.Get().Images[0]; got.Image != "a" || got.Reference != "reg.example/a:1" || !got.Required {
		t.Errorf("got %+v", got)
	}
}

// TestSnapshotsStayAsTheyWere changes everything that a snapshot refers to after it has been handed out.
func TestSnapshotsStayAsTheyWere(t *testing.T) {
	t.Parallel()
	s := configured(t, entry(t, "a", "reg.example/a:1"), entry(t, "b", "reg.example/b:1"))
	theirs := []cri.LayerProgress{{Size: 10, Fetched: 1}}
	update := func(f func(*ImageStatus)) {
		t.Helper()
		if err := s.Update("a", f); err != nil {
			t.Fatal(err)
		}
	}
	update(func(p *ImageStatus) { p.Phase, p.Layers, p.ETASeconds = cri.PhaseWaiting, theirs, new(9.0) })
	before := s.Get()
	text := fmt.Sprintf("%+v %v", before, *before.Images[0].ETASeconds)
	theirs[0].Fetched = 2
	update(func(p *ImageStatus) { p.Layers[0].Fetched, *p.ETASeconds = 10, 1 })
	s.SetImages([]config.Image{entry(t, "b", "reg.example/b:2"), entry(t, "a", "reg.example/a:1")})
	s.SetRuntime(cri.Info{Name: "other"}, errTest)
	if now := fmt.Sprintf("%+v %v", before, *before.Images[0].ETASeconds); now != text {
		t.Errorf("a snapshot changed after it was handed out:\nfrom %s\nto   %s", text, now)
	}
	if a, _ := s.Get().Image("a"); a.Layers[0].Fetched != 10 || *a.ETASeconds != 1 {
		t.Errorf("the change was lost: %+v", a)
	}
}

func TestSetImages(t *testing.T) {
	t.Parallel()
	a, b := entry(t, "a", "reg.example/a:1"), entry(t, "b", "reg.example/b:1")
	s := configured(t, a, b)
	warm(t, s, "a")
	warm(t, s, "b")
	ready := func() map[string]Readiness {
		out := map[string]Readiness{}
		for _, i := range s.Get().Images {
			out[i.Image] = i.Readiness()
		}
		return out
	}
	steps := []struct {
		what   string
		images []config.Image
		want   map[string]Readiness
	}{
		{"the same", []config.Image{a, b}, map[string]Readiness{"a": Ready, "b": Ready}},
		{"another order", []config.Image{b, a}, map[string]Readiness{"a": Ready, "b": Ready}},
		{"not required any more", []config.Image{optional(b), a}, map[string]Readiness{"a": Ready, "b": Ready}},
		{"one more", []config.Image{a, b, entry(t, "c", "reg.example/c:1")}, map[string]Readiness{"a": Ready, "b": Ready, "c": NotReady}},
		{"another reference", []config.Image{a, entry(t, "b", "reg.example/b:2")}, map[string]Readiness{"a": Ready, "b": NotReady}},
		{"gone", []config.Image{entry(t, "b", "reg.example/b:2")}, map[string]Readiness{"b": NotReady}},
		{"back, and nothing is remembered", []config.Image{a}, map[string]Readiness{"a": NotReady}},
	}
	for _, step := range steps {
		s.SetImages(step.images)
		if diff := cmp.Diff(step.want, ready()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
		for i, is := range s.Get().Images {
			if want := step.images[i]; is.Image != want.Name || is.Required != want.Required || is.Reference != want.Reference.String() {
				t.Errorf("%s: image %d is %+v", step.what, i, is)
			}
		}
	}
}

func TestSetConfiguration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		loaded := time.Now()
		s.SetConfiguration(config.Update{Err: errTest, Generation: 1})
		first := Configuration{Source: "/etc/prewarm/config.yaml", Error: errTest.Error()}
		if diff := cmp.Diff(first, s.Get().Configuration); diff != "" {
			t.Errorf("a bad first one (-want +got):\n%s", diff)
		}
		s.SetConfiguration(config.Update{Configuration: config.Default(), Generation: 2})
		good := Configuration{Source: "/etc/prewarm/config.yaml", Generation: 2, LoadedAt: loaded, FailOpenAfterSeconds: 1800}
		if diff := cmp.Diff(good, s.Get().Configuration); diff != "" {
			t.Errorf("a good one (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute)
		s.SetConfiguration(config.Update{Err: errTest, Generation: 3})
		good.Error = errTest.Error()
		if diff := cmp.Diff(good, s.Get().Configuration); diff != "" {
			t.Errorf("a bad one after it (-want +got):\n%s", diff)
		}
		s.SetConfiguration(config.Update{Configuration: config.Default(), Generation: 4})
		if c := s.Get().Configuration; c.Error != "" || c.Generation != 4 || !c.LoadedAt.Equal(loaded.Add(time.Minute)) {
			t.Errorf("mended: %+v", c)
		}
	})
}

func TestErrorsComeAndGo(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	s.SetRuntime(cri.Info{Name: "containerd"}, errTest)
	s.SetNodeError(errTest)
	if now := s.Get(); now.RuntimeError != errTest.Error() || now.NodeError != errTest.Error() {
		t.Errorf("got %+v", now)
	}
	s.SetRuntime(cri.Info{Name: "containerd"}, nil)
	s.SetNodeError(nil)
	if now := s.Get(); now.RuntimeError != "" || now.NodeError != "" {
		t.Errorf("got %+v", now)
	}
}

// TestWatchSkipsForASlowReader blocks a reader while much happens: no writer waits, and the reader gets the last state.
func TestWatchSkipsForASlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := configured(t, entry(t, "a", "reg.example/a:1"))
		var got []int64
		read := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for now := range s.Watch(ctx) {
				got = append(got, now.Images[0].Bytes.Fetched)
				<-read
			}
		}()
		synctest.Wait()
		for n := range int64(1000) {
			if err := s.Update("a", func(p *ImageStatus) { p.Phase, p.Bytes.Fetched = cri.PhaseWaiting, n+1 }); err != nil {
				t.Fatal(err)
			}
		}
		read <- struct{}{}
		synctest.Wait()
		if diff := cmp.Diff([]int64{0, 1000}, got); diff != "" {
			t.Errorf("the slow reader got (-want +got):\n%s", diff)
		}
		read <- struct{}{}
		cancel()
		<-done
	})
}

func TestWatchIsQuietWhenNothingIsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		images := []config.Image{entry(t, "a", "reg.example/a:1")}
		s := configured(t, images...)
		warm(t, s, "a")
		seen := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range s.Watch(ctx) {
				seen++
			}
		}()
		synctest.Wait()
		before := s.Get().UpdatedAt
		time.Sleep(time.Second)
		s.SetImages(images)
		s.SetRuntime(s.Get().Runtime, nil)
		s.SetNodeError(nil)
		if err := s.Update("a", func(*ImageStatus) {}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if seen != 1 || !s.Get().UpdatedAt.Equal(before) {
			t.Errorf("seen %d, updated %v after", seen, s.Get().UpdatedAt.Sub(before))
		}
		cancel()
		<-done
	})
}

func TestWatchEndsWhenTheReaderHasEnough(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for range s.Watch(t.Context()) {
		break
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for range s.Watch(canceled) {
		t.Error("a watch that had ended gave a state")
	}
}

// TestManyAtOnce is for the race detector: writers, readers and watchers at the same time, and at the end all agree.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	s := configured(t, entry(t, "a", "reg.example/a:1"), entry(t, "b", "reg.example/b:1"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var watchers, writers sync.WaitGroup
	for range 4 {
		watchers.Go(func() {
			for now := range s.Watch(ctx) {
				if len(now.Images[0].Layers) > 0 && now.Images[0].Layers[0].Fetched == 500 {
					return
				}
			}
			t.Error("a watcher never saw the last state")
		})
	}
	writers.Go(func() {
		for n := range int64(501) {
			_ = s.Update("a", func(p *ImageStatus) {
				p.Phase, p.Layers = cri.PhaseWaiting, []cri.LayerProgress{{Fetched: n}}
			})
		}
	})
	writers.Go(func() {
		for n := range 500 {
			_ = s.Update("b", func(p *ImageStatus) { p.Phase, p.Rate = cri.PhaseWaiting, float64(n) })
			s.SetRuntime(cri.Info{Name: fmt.Sprint(n)}, nil)
			_ = s.Get().Readiness()
		}
	})
	writers.Wait()
	watchers.Wait()
}
