package agent

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

// end stops the agent and waits for it.
func (b *bench) end(t *testing.T) {
	t.Helper()
	b.stop()
	if err := <-b.done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// settle lets time pass, and everything that happens in it.
func settle(d time.Duration) {
	time.Sleep(d) // in a bubble: no time passes
	synctest.Wait()
}

func TestAFirstPullGoesThroughEveryPhase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		b := startAgent(t, newFakeRuntime(img), img)
		settle(10 * time.Second)
		want := []cri.Phase{cri.PhaseResolving, cri.PhaseWaiting, cri.PhasePulling, cri.PhaseUnpacking, cri.PhaseVerifying, cri.PhaseReady}
		if got := b.board.history("a"); !slices.Equal(got, want) {
			t.Errorf("phases %v, want %v", got, want)
		}
		if p := b.board.get("a"); p.Digest != img.Digest || p.Verified != cri.VerifiedSnapshots || p.ReadyAt.IsZero() || p.Reason != "" {
			t.Errorf("%+v", p)
		}
		b.end(t)
	})
}

func TestAnImageThatIsPresentCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime() // a registry that has nothing
		f.put(img)
		b := startAgent(t, f, img)
		synctest.Wait()
		if b.board.get("a").Phase != cri.PhaseReady || f.count("Resolve") != 0 || f.count("Pull") != 0 {
			t.Errorf("phase %s, %d resolves, %d pulls: want ready at once, without registry and pull", b.board.get("a").Phase, f.count("Resolve"), f.count("Pull"))
		}
		if p := b.board.get("a"); p.Bytes.Fraction() != 1 || p.Bytes.Total != 100 {
			t.Errorf("bytes %+v", p.Bytes)
		}
		b.end(t)
	})
}

// What is on the Node from before goes only on evidence, which is there before a slow registry has answered.
func TestAnImageThatIsNotThereIsToldBeforeTheRegistryAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		f.resolveTime = time.Hour
		b := startAgent(t, f, img)
		synctest.Wait()
		if p := b.board.get("a"); p.Phase != cri.PhaseResolving || p.Reason != cri.ReasonNotPresent {
			t.Errorf("phase %q, reason %q, want %q and %q", p.Phase, p.Reason, cri.PhaseResolving, cri.ReasonNotPresent)
		}
		b.end(t)
	})
}

func TestALostImageIsToldBeforeItIsPulledAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		b := startAgent(t, newFakeRuntime(img), img)
		settle(5 * time.Second)
		b.remove(img)
		synctest.Wait()
		if p := b.board.get("a"); p.Phase == cri.PhaseReady || !p.ReadyAt.IsZero() {
			t.Errorf("after the loss: %+v", p)
		}
		settle(5 * time.Second)
		h := b.board.history("a")
		i := slices.Index(h, cri.PhaseLost)
		if i < 0 || h[i-1] != cri.PhaseReady || b.board.get("a").Phase != cri.PhaseReady {
			t.Errorf("phases %v: want ready, lost, …, ready", h)
		}
		if !slices.Equal(b.lost, []cri.Reason{cri.ReasonNotPresent}) || b.count("Pull") != 2 {
			t.Errorf("losses %v, %d pulls", b.lost, b.count("Pull"))
		}
		b.end(t)
	})
}

// Somebody who keeps removing the image gets no pull-delete fight.
func TestRepeatedLossesAreMendedMoreAndMoreSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		f.pullTime = 0
		b := startAgent(t, f, img)
		for range 600 { // ten minutes in which it is removed every second
			settle(time.Second)
			if b.board.get("a").Phase == cri.PhaseReady {
				f.remove(img)
			}
		}
		if n := f.count("Pull"); n < 5 || n > 12 {
			t.Errorf("%d pulls in ten minutes, want a few", n)
		}
		b.end(t)
	})
}

func TestAnImageThatWasCalmIsMendedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		b := startAgent(t, newFakeRuntime(img), img)
		for range 3 {
			settle(calmAfter + time.Minute)
			b.remove(img)
			settle(2 * time.Second)
			if b.board.get("a").Phase != cri.PhaseReady {
				t.Fatalf("two seconds after a loss: %s", b.board.get("a").Phase)
			}
		}
		b.end(t)
	})
}

func TestSnapshotsThatVanishAreALoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		b := startAgent(t, f, img)
		settle(5 * time.Second)
		f.mu.Lock()
		delete(f.unpacked, img.Config)
		f.mu.Unlock()
		f.events <- cri.Event{ChainID: img.Layers[0].ChainID}
		settle(5 * time.Second)
		if !slices.Equal(b.lost, []cri.Reason{cri.ReasonNotUnpacked}) || b.board.get("a").Phase != cri.PhaseReady {
			t.Errorf("losses %v, phase %s", b.lost, b.board.get("a").Phase)
		}
		b.end(t)
	})
}

func TestEventsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		b := startAgent(t, newFakeRuntime(img), img)
		settle(5 * time.Second)
		before := b.count("Verify")
		b.events <- cri.Event{Reference: "reg.example/other:1"}
		b.events <- cri.Event{ChainID: "sha256:other"}
		synctest.Wait()
		if n := b.count("Verify"); n != before {
			t.Errorf("%d verifications for events of others", n-before)
		}
		b.end(t)
	})
}

// An image that no registry has is asked for seldom; when somebody brings it otherwise, that is seen at once, or as soon
// as the runtime's image service, which may be behind its events, knows of it.
func TestAnImageThatTurnsUpEndsTheWait(t *testing.T) {
	t.Parallel()
	for name, behind := range map[string][]error{"and is known": nil, "and is known later": {cri.ErrNotPresent}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				img := testImage(t, "a")
				f := newFakeRuntime() // a registry that has nothing
				b := startAgent(t, f, img)
				settle(time.Second)
				f.put(img)
				f.fail("Verify", behind...)
				f.events <- cri.Event{Reference: img.Reference.Canonical()}
				settle(2 * time.Second)
				if p := b.board.get("a"); p.Phase != cri.PhaseReady || f.count("Resolve") != 1 {
					t.Errorf("phase %s, %d resolves: want ready, and one before", p.Phase, f.count("Resolve"))
				}
				b.end(t)
			})
		})
	}
}

// What a pull that failed has come to is not told of the image that somebody else then brought.
func TestAnImageThatIsBroughtAfterAFailureIsPresent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		f.fail("Pull", &cri.Error{Reason: cri.ReasonRegistryUnavailable, Noun: "a", Err: errors.New("503")})
		b := startAgent(t, f, img)
		settle(f.pullTime + time.Second)
		if p := b.board.get("a"); p.Phase != cri.PhaseFailed || p.Bytes.Missing() == 0 {
			t.Fatalf("phase %s, bytes %+v: want a pull that failed", p.Phase, p.Bytes)
		}
		f.put(img)
		f.events <- cri.Event{Reference: img.Reference.Canonical()}
		settle(2 * time.Second)
		p := b.board.get("a")
		if want := (cri.Bytes{Total: 100, Present: 100}); p.Phase != cri.PhaseReady || p.Bytes != want || !p.StartedAt.IsZero() || f.count("Pull") != 1 {
			t.Errorf("%+v after %d pulls, want it ready, all of it present, and no pull of ours", p, f.count("Pull"))
		}
		b.end(t)
	})
}

// A loss while there is no stream of events is seen as soon as there is one again.
func TestABrokenStreamOfEventsMissesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		b := startAgent(t, f, img)
		settle(5 * time.Second)
		f.mu.Lock()
		close(f.broken)
		f.broken = make(chan struct{})
		delete(f.store, img.Reference.Canonical())
		f.mu.Unlock()
		settle(10 * time.Second)
		if len(b.lost) != 1 || b.board.get("a").Phase != cri.PhaseReady || b.reconnected != 1 {
			t.Errorf("losses %v, phase %s, %d reconnects", b.lost, b.board.get("a").Phase, b.reconnected)
		}
		b.board.mu.Lock()
		states := b.board.runtime
		b.board.mu.Unlock()
		if i := slices.IndexFunc(states, func(err error) bool { return err != nil }); i < 0 || states[len(states)-1] != nil {
			t.Errorf("the board was told %v: want an error and then none", states)
		}
		b.end(t)
	})
}

func TestASlowLookNeedsNoEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		b := startAgent(t, f, img)
		settle(5 * time.Second)
		f.mu.Lock()
		delete(f.store, img.Reference.Canonical())
		f.mu.Unlock()
		settle(verifyInterval + time.Minute)
		if len(b.lost) != 1 {
			t.Errorf("losses %v, want 1", b.lost)
		}
		b.end(t)
	})
}

func TestARuntimeThatCannotBeAskedProvesNoLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		b := startAgent(t, f, img)
		settle(5 * time.Second)
		away := &cri.Error{Reason: cri.ReasonRuntimeUnavailable, Noun: "socket", Err: errors.New("away")}
		f.fail("Verify", away, away, away)
		settle(verifyInterval + 10*time.Second)
		if len(b.lost) != 0 || b.board.get("a").Phase != cri.PhaseReady {
			t.Errorf("losses %v, phase %s: want none, and ready", b.lost, b.board.get("a").Phase)
		}
		b.end(t)
	})
}

func TestAFailedPullIsTriedAgainAndSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		f.fail("Pull", &cri.Error{Reason: cri.ReasonRegistryUnavailable, Noun: "reg.example/a:1", Err: errors.New("503")})
		b := startAgent(t, f, img)
		settle(1500 * time.Millisecond)
		if p := b.board.get("a"); p.Phase != cri.PhaseFailed || p.Reason != cri.ReasonRegistryUnavailable || p.Message == "" || p.Rate != 0 {
			t.Errorf("%+v", p)
		}
		settle(10 * time.Second)
		if b.board.get("a").Phase != cri.PhaseReady || !slices.Equal(b.pulls, []cri.Reason{cri.ReasonRegistryUnavailable, ""}) {
			t.Errorf("phase %s, pulls %v", b.board.get("a").Phase, b.pulls)
		}
		b.end(t)
	})
}

func TestWhatOnlyTheRegistryCanMendIsAskedSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime() // 404
		b := startAgent(t, f, img)
		settle(time.Hour)
		if n := f.count("Resolve"); n < 3 || n > 8 {
			t.Errorf("%d questions in an hour, want a few", n)
		}
		b.end(t)
	})
}

func TestOneImageAtATimeInTheOrderOfTheConfiguration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, y, z := testImage(t, "x"), testImage(t, "y"), testImage(t, "z")
		f := newFakeRuntime(x, y, z)
		b := startAgent(t, f, x, y, z)
		synctest.Wait()
		pulling := 0
		for _, n := range []string{"x", "y", "z"} {
			if b.board.get(n).Phase == cri.PhasePulling {
				pulling++
			} else if p := b.board.get(n); p.Reason != cri.ReasonQueued {
				t.Errorf("%s: %+v, want it queued", n, p)
			}
		}
		if pulling != 1 || b.board.get("x").Phase != cri.PhasePulling {
			t.Errorf("%d pulls at the same time, x is %s; want one, of the first", pulling, b.board.get("x").Phase)
		}
		settle(10 * time.Second)
		for _, n := range []string{"x", "y", "z"} {
			if b.board.get(n).Phase != cri.PhaseReady {
				t.Errorf("%s is %s", n, b.board.get(n).Phase)
			}
		}
		b.end(t)
	})
}

func TestTheConfigurationChangesWhileAPullRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, y := testImage(t, "x"), testImage(t, "y")
		f := newFakeRuntime(x, y)
		f.pullTime = time.Minute
		b := startAgent(t, f, x)
		settle(10 * time.Second)
		b.configs <- config.Update{Configuration: configOf(x, y)}
		synctest.Wait()
		if f.count("Pull") != 1 || b.board.get("x").Phase != cri.PhasePulling {
			t.Errorf("%d pulls, x is %s: the running pull was disturbed", f.count("Pull"), b.board.get("x").Phase)
		}
		b.configs <- config.Update{Err: errors.New("broken file")}
		settle(3 * time.Minute)
		if b.board.get("x").Phase != cri.PhaseReady || b.board.get("y").Phase != cri.PhaseReady || b.refused != 1 || len(b.board.refusals) != 1 {
			t.Errorf("x %s, y %s, %d refused: a bad file must change nothing", b.board.get("x").Phase, b.board.get("y").Phase, b.refused)
		}
		b.configs <- config.Update{Configuration: configOf(y)}
		synctest.Wait()
		if !slices.Equal(b.board.names, []string{"y"}) {
			t.Errorf("images %v, want y", b.board.names)
		}
		b.end(t)
	})
}

func TestTheAgentStopsWithinAPull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		f.pullTime = time.Hour
		b := startAgent(t, f, img)
		settle(time.Second)
		start := time.Now()
		b.end(t)
		if d := time.Since(start); d > 0 {
			t.Errorf("stopping took %v", d)
		}
		if p := b.board.get("a"); p.Phase == cri.PhaseReady {
			t.Errorf("%+v", p)
		}
	})
}

func TestAReferenceThatMovesToAReadyImageIsNoLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		b := startAgent(t, f, img)
		settle(5 * time.Second)
		next := img
		next.Digest, next.Config = testImage(t, "b").Digest, testImage(t, "b").Config
		f.put(next)
		f.events <- cri.Event{Reference: img.Reference.Canonical()}
		synctest.Wait()
		if p := b.board.get("a"); p.Phase != cri.PhaseReady || p.Digest != next.Digest || len(b.lost) != 0 {
			t.Errorf("%+v, losses %v", p, b.lost)
		}
		b.end(t)
	})
}

// The source of the configuration ends with the same context as the agent: whichever is seen first, that is no failure.
func TestTheEndOfTheSourceIsNoFailureAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := startAgent(t, newFakeRuntime())
		close(b.configs)
		synctest.Wait()
		b.end(t)
	})
	synctest.Test(t, func(t *testing.T) {
		b := startAgent(t, newFakeRuntime())
		close(b.configs)
		if err := <-b.done; err == nil {
			t.Error("an agent whose source of the configuration has ended goes on as if it had one")
		}
		b.stop()
	})
}
