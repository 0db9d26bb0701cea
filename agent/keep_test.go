package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

// configure hands the agent a configuration whose images are changed before.
func (b *bench) configure(images []cri.Image, change func(*config.Configuration)) {
	c := configOf(images...)
	for i := range c.Images {
		c.Images[i].Pin, c.Images[i].RefreshInterval = true, config.Duration{Duration: time.Hour}
	}
	if change != nil {
		change(c)
	}
	b.configs <- config.Update{Configuration: c}
}

// startKeeping runs an agent whose images are pinned and refreshed.
func startKeeping(t *testing.T, f *fakeRuntime, change func(*config.Configuration), images ...cri.Image) *bench {
	t.Helper()
	b := startAgentWithout(t, f)
	b.facts <- config.NodeFacts{}
	b.configure(images, change)
	return b
}

func TestAReadyImageIsPinned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		b := startKeeping(t, f, func(c *config.Configuration) { c.Images[0].RefreshInterval = config.Duration{} }, img)
		settle(10 * time.Second)
		if d := cmp.Diff(map[string]string{img.Config.String(): "a"}, f.owners()); d != "" || !b.board.get("a").Pinned {
			t.Errorf("pinned %v, pins:\n%s", b.board.get("a").Pinned, d)
		}
		f.unpin(img) // somebody else takes the pin away
		f.events <- cri.Event{Reference: img.Config.String()}
		settle(2 * time.Second)
		if len(f.owners()) != 1 || b.restored != 1 || !b.board.get("a").Pinned {
			t.Errorf("%d pins, %d times restored, want one each", len(f.owners()), b.restored)
		}
		calls := f.total()
		settle(verifyInterval - 10*time.Second)
		if n := f.total() - calls; n != 0 {
			t.Errorf("%d calls of the runtime though nothing happened", n)
		}
		b.end(t)
		if len(f.owners()) != 1 {
			t.Error("the pin went with the agent: the image stays, and so must its pin")
		}
	})
}

func TestPinFalseIsNotPinned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		f.pins = map[string]string{img.Config.String(): "a"} // from before
		b := startKeeping(t, f, func(c *config.Configuration) { c.Images[0].Pin = false }, img)
		settle(10 * time.Second)
		if len(f.owners()) != 0 || b.board.get("a").Pinned || b.board.get("a").Phase != cri.PhaseReady {
			t.Errorf("pins %v, state %+v", f.owners(), b.board.get("a"))
		}
		b.end(t)
	})
}

// A pin that cannot be set is told, and the image is ready all the same.
func TestAPinThatFailsIsNoLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		f.fail("Pin", errors.New("no"), errors.New("no")) // the stream of events, once it stands, makes it look again
		b := startKeeping(t, f, nil, img)
		settle(10 * time.Second)
		if b.board.get("a").Phase != cri.PhaseReady || b.board.get("a").Pinned {
			t.Errorf("%+v", b.board.get("a"))
		}
		settle(2 * verifyInterval)
		if !b.board.get("a").Pinned {
			t.Error("not tried again with the next looks")
		}
		b.end(t)
	})
}

// What is not wanted any more is let go of: what this agent did not pin too, if an agent did. What others keep stays.
func TestWhatIsNotWantedIsLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, y := testImage(t, "x"), testImage(t, "y")
		f := newFakeRuntime(x, y)
		f.pins = map[string]string{"sha256:old": "left-over", "sha256:former": "x"}
		f.leases = []string{"left-over", "x", ""}
		b := startKeeping(t, f, nil, x, y)
		settle(10 * time.Second)
		if d := cmp.Diff(map[string]string{x.Config.String(): "x", y.Config.String(): "y"}, f.owners()); d != "" {
			t.Errorf("pins:\n%s", d)
		}
		if d := cmp.Diff([]string{"x", ""}, f.leases); d != "" { // a pull by hand is nobody's of ours
			t.Errorf("leases:\n%s", d)
		}
		b.configure([]cri.Image{y}, nil)
		settle(time.Second)
		if d := cmp.Diff(map[string]string{y.Config.String(): "y"}, f.owners()); d != "" {
			t.Errorf("pins after x is gone from the configuration:\n%s", d)
		}
		b.end(t)
	})
}

// move lets the registry mean another image by a reference.
func (f *fakeRuntime) move(img cri.Image, version string) cri.Image {
	next := img
	next.Digest, next.Config = digest.FromString(version), digest.FromString("config "+version)
	fixed := next
	fixed.Reference, _ = img.Reference.Fixed(next.Digest)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.registry[img.Reference.Canonical()], f.registry[fixed.Reference.Canonical()] = next, fixed
	return next
}

func (f *fakeRuntime) unpin(img cri.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pins, img.Config.String())
}

func TestAMovedTagIsPulledBesideTheReadyImage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		f.pullTime = time.Minute
		b := startKeeping(t, f, nil, img)
		settle(2 * time.Minute)
		next := f.move(img, "v2")
		seen := false
		for range 130 {
			settle(time.Minute / 2)
			switch p := b.board.get("a"); {
			case p.Phase != cri.PhaseReady:
				t.Fatalf("not ready any more: %+v", p)
			case p.Refresh.Next != nil:
				seen = true
				if p.Digest != img.Digest || p.Refresh.Next.Digest != next.Digest || f.owners()[img.Config.String()] != "a" {
					t.Errorf("while the new one is pulled: %+v, pins %v", p, f.owners())
				}
			}
		}
		if p := b.board.get("a"); !seen || p.Digest != next.Digest || p.Refresh.Reason != "" || p.Refresh.Next != nil {
			t.Errorf("seen beside %v, then %+v; want the new digest", seen, p)
		}
		if d := cmp.Diff(map[string]string{next.Config.String(): "a"}, f.owners()); d != "" {
			t.Errorf("pins:\n%s", d)
		}
		b.end(t)
		if h := b.board.history("a"); slices.Contains(h, cri.PhaseLost) {
			t.Errorf("phases %v", h)
		}
		// By digest and by tag is one pull.
		if d := cmp.Diff([]cri.Reason{"", ""}, b.pulls); d != "" {
			t.Errorf("pulls that were counted, with the first one:\n%s", d)
		}
	})
}

// Whatever the registry says of a reference, the image that is ready stays so.
func TestARefreshThatFailsIsNoLoss(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]cri.Reason{"tag deleted": cri.ReasonImageNotFound, "registry away": cri.ReasonRegistryUnavailable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				img := testImage(t, "a")
				f := newFakeRuntime()
				f.put(img)
				away := &cri.Error{Reason: reason, Noun: "a", Err: errors.New("no")}
				f.fail("Resolve", away, away)
				b := startKeeping(t, f, nil, img)
				settle(70 * time.Minute)
				p := b.board.get("a")
				if p.Phase != cri.PhaseReady || p.Refresh.Reason != reason || p.Refresh.CheckedAt.IsZero() || !p.Pinned {
					t.Errorf("%+v, want it ready, and to be told why it cannot be refreshed", p)
				}
				if len(b.refreshes) == 0 || b.refreshes[0] != reason {
					t.Errorf("counted %v", b.refreshes)
				}
				b.end(t)
			})
		})
	}
}

// An image that is lost while its successor is pulled is told to be lost at once.
func TestALossDuringARefreshIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		b := startKeeping(t, f, nil, img)
		settle(time.Minute)
		f.move(img, "v2")
		f.setPullTime(3 * time.Hour)
		settle(70 * time.Minute)
		if b.board.get("a").Refresh.Next == nil {
			t.Fatalf("no refresh runs: %+v", b.board.get("a"))
		}
		f.setPullTime(time.Second)
		f.remove(img)
		synctest.Wait()
		if h := b.board.history("a"); !slices.Contains(h, cri.PhaseLost) {
			t.Errorf("phases %v", h)
		}
		settle(10 * time.Second)
		if b.board.get("a").Phase != cri.PhaseReady {
			t.Errorf("%+v", b.board.get("a"))
		}
		b.end(t)
	})
}

// The registry is asked about once in an interval, never for a digest, and never with an interval of 0.
func TestHowOftenTheRegistryIsAsked(t *testing.T) {
	t.Parallel()
	fixed, err := testImage(t, "a").Reference.Fixed(digest.FromString("a"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		ref         cri.Reference
		interval    time.Duration
		least, most int
	}{
		"tag":    {testImage(t, "a").Reference, 6 * time.Hour, 38, 42},
		"digest": {fixed, 6 * time.Hour, 0, 0},
		"never":  {testImage(t, "a").Reference, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				img := testImage(t, "a")
				img.Reference = test.ref
				f := newFakeRuntime(img)
				f.put(img)
				b := startKeeping(t, f, func(c *config.Configuration) {
					c.Images[0].Name, c.Images[0].RefreshInterval = "a", config.Duration{Duration: test.interval}
				}, img)
				settle(240 * time.Hour)
				if n := f.count("Resolve"); n < test.least || n > test.most {
					t.Errorf("asked %d times in ten days, want %d to %d", n, test.least, test.most)
				}
				b.end(t)
			})
		})
	}
}

// Nodes that boot together ask one after the other.
func TestFirstRefreshesAreSpread(t *testing.T) {
	t.Parallel()
	const nodes = 1000
	var perTenth [10]int
	for n := range nodes {
		d := firstRefresh("node-"+strings.Repeat("x", n%7)+string(rune('a'+n%26))+time.Duration(n).String(), "cpu", time.Hour)
		if d < 0 || d > time.Hour {
			t.Fatalf("first refresh after %v", d)
		}
		perTenth[min(9, d/(6*time.Minute))]++
	}
	for i, n := range perTenth {
		if n < nodes/20 || n > nodes/5 {
			t.Errorf("%d of %d nodes ask in tenth %d of the interval", n, nodes, i)
		}
	}
	if before, after := firstRefresh("a", "cpu", time.Hour), firstRefresh("a", "cpu", time.Hour); before != after {
		t.Errorf("it changes from start to start: %v, %v", before, after)
	}
}

// What nobody wants is let go of before somebody wants it again, and not then: a slow runtime must not make us drop what a
// new life has begun to fetch.
func TestWhatIsWantedAgainIsNotLetGoOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, y := testImage(t, "x"), testImage(t, "y")
		f := newFakeRuntime(x, y)
		f.leases = []string{"x", "y"}
		b := startKeeping(t, f, nil, x, y)
		settle(time.Minute)
		f.mu.Lock()
		f.sweepTime = time.Minute
		f.mu.Unlock()
		b.configure([]cri.Image{x}, nil) // y goes, and to let go of it takes a minute
		settle(time.Second)
		resolved := f.count("Local")
		b.configure([]cri.Image{x, y}, nil)
		settle(time.Second)
		if f.count("Local") != resolved {
			t.Error("a life of y began while y is being let go of")
		}
		settle(5 * time.Minute)
		if p := b.board.get("y"); p.Phase != cri.PhaseReady || !p.Pinned || f.owners()[y.Config.String()] != "y" {
			t.Errorf("y afterwards: %+v, pins %v", p, f.owners())
		}
		b.end(t)
	})
}

// A runtime that hangs breaks no stream of events: that it does not answer is seen by whoever asks it.
func TestARuntimeThatHangsIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := testImage(t, "x")
		f := newFakeRuntime()
		f.put(x)
		b := startKeeping(t, f, nil, x)
		settle(time.Minute)
		silent := &cri.Error{Reason: cri.ReasonRuntimeUnavailable, Noun: "x", Err: errors.New("no answer within 30s")}
		f.fail("Verify", silent)
		f.events <- cri.Event{Reference: x.Reference.Canonical()}
		settle(askAgain / 2)
		if err := b.board.lastRuntime(); !errors.Is(err, silent) || b.board.get("x").Phase != cri.PhaseReady {
			t.Errorf("the runtime is said to answer %v, x is %s", err, b.board.get("x").Phase)
		}
		settle(askAgain)
		if err := b.board.lastRuntime(); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		b.end(t)
	})
}

// manyKeys is a Keychain whose first two credentials the registry refuses.
type manyKeys struct{}

func (manyKeys) Try(_ context.Context, ref cri.Reference, try func(*cri.Credential) error) error {
	for range 2 {
		if err := try(&cri.Credential{Username: "old"}); cri.ReasonOf(err) != cri.ReasonUnauthorized {
			return err
		}
	}
	return try(nil)
}

// A pull for which several credentials were tried is one pull, with the result of the last.
func TestAPullWithSeveralCredentialsIsOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		refused := &cri.Error{Reason: cri.ReasonUnauthorized, Noun: "a", Err: errors.New("401")}
		f.fail("Pull", refused, refused)
		b := startAgentWithout(t, f)
		b.agent.Keychain = manyKeys{}
		b.give(img)
		settle(time.Minute)
		if d := cmp.Diff([]cri.Reason{""}, b.pulls); d != "" || f.count("Pull") != 3 || b.board.get("a").Phase != cri.PhaseReady {
			t.Errorf("%d tries, counted:\n%s", f.count("Pull"), d)
		}
		b.end(t)
	})
}
