package agent

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// A pull needs 300 bytes here; the kubelet wants 15 % of the disk, and headroom are 5 % more.
func TestADiskThatIsTooSmallIsNotFilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		f.disk = &cri.Disk{Path: "/images", Total: 1000, Free: 499}
		b := startKeeping(t, f, nil, img)
		settle(10 * time.Minute)
		p := b.board.get("a")
		if f.count("Pull") != 0 || p.Phase != cri.PhaseWaiting || p.Reason != cri.ReasonDiskTooSmall {
			t.Errorf("%d pulls, %+v", f.count("Pull"), p)
		}
		for _, word := range []string{"/images", "85 %", "5 % headroom", "GB free"} {
			if !strings.Contains(p.Message, word) {
				t.Errorf("the message does not say %q: %s", word, p.Message)
			}
		}
		if want := (status.Room{Need: 300, Free: 499, Keep: 200}); p.Room != want {
			t.Errorf("room %+v, want %+v", p.Room, want)
		}
		f.mu.Lock()
		f.disk = &cri.Disk{Path: "/images", Total: 1000, Free: 500} // just enough
		f.mu.Unlock()
		settle(2 * roomInterval)
		if b.board.get("a").Phase != cri.PhaseReady {
			t.Errorf("with room: %+v", b.board.get("a"))
		}
		b.end(t)
	})
}

// An image that waits for room keeps no other from being pulled.
func TestWhoWaitsForRoomHasNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		large, small := testImage(t, "large"), testImage(t, "small")
		large.Layers[0].Size = 1000
		f := newFakeRuntime(large, small)
		f.disk = &cri.Disk{Path: "/images", Total: 1000, Free: 900}
		b := startKeeping(t, f, nil, large, small)
		settle(time.Minute)
		if b.board.get("large").Reason != cri.ReasonDiskTooSmall || b.board.get("small").Phase != cri.PhaseReady {
			t.Errorf("large %+v, small %+v", b.board.get("large"), b.board.get("small"))
		}
		b.end(t)
	})
}

// A node that is faulty, leaving or short of disk gets no new pull; what is ready stays ready.
func TestNoPullBeginsWhileTheNodeIsNotInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, y := testImage(t, "x"), testImage(t, "y")
		f := newFakeRuntime(x, y)
		f.put(x)
		b := startAgentWithout(t, f)
		hold := config.Hold{Reason: cri.ReasonNodeUnhealthy, Message: "deep health check"}
		b.facts <- config.NodeFacts{Hold: hold}
		b.configure([]cri.Image{x, y}, nil)
		settle(time.Hour)
		if p := b.board.get("x"); p.Phase != cri.PhaseReady || !p.Pinned {
			t.Errorf("x, which is there: %+v", p)
		}
		if p := b.board.get("y"); p.Phase != cri.PhaseWaiting || p.Reason != hold.Reason || p.Message != hold.Message || f.count("Pull") != 0 {
			t.Errorf("y: %+v and %d pulls, want it to wait", p, f.count("Pull"))
		}
		b.facts <- config.NodeFacts{}
		settle(10 * time.Second)
		if b.board.get("y").Phase != cri.PhaseReady {
			t.Errorf("y after that: %+v", b.board.get("y"))
		}
		b.end(t)
	})
}

// What somebody else brings while an image waits, for the node or for its turn, is ready at once.
func TestAnImageThatIsBroughtNeedsNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, y := testImage(t, "x"), testImage(t, "y")
		f := newFakeRuntime(x, y)
		f.pullTime = time.Hour
		b := startAgentWithout(t, f)
		b.facts <- config.NodeFacts{Hold: config.Hold{Reason: cri.ReasonNodeLeaving}}
		b.configure([]cri.Image{x, y}, nil)
		settle(time.Minute)
		f.put(x)
		f.events <- cri.Event{Reference: x.Reference.Canonical()}
		settle(time.Second)
		if b.board.get("x").Phase != cri.PhaseReady || b.board.get("y").Reason != cri.ReasonNodeLeaving {
			t.Errorf("x %+v, y %+v", b.board.get("x"), b.board.get("y"))
		}
		b.end(t)

		f = newFakeRuntime(x, y)
		f.pullTime = time.Hour
		b = startKeeping(t, f, nil, x, y)
		settle(time.Minute)
		f.put(y)
		f.events <- cri.Event{Reference: y.Reference.Canonical()}
		settle(time.Second)
		if b.board.get("y").Phase != cri.PhaseReady || b.board.get("x").Phase != cri.PhasePulling {
			t.Errorf("x %+v, y %+v", b.board.get("x"), b.board.get("y"))
		}
		b.end(t)
	})
}

// Under disk pressure the kubelet must be able to delete what no container uses; when it is over, pins are set again.
func TestUnderDiskPressureNothingIsPinned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		b := startKeeping(t, f, nil, img)
		settle(10 * time.Second)
		b.facts <- config.NodeFacts{Hold: config.Hold{Reason: cri.ReasonDiskPressure}}
		settle(time.Second)
		if p := b.board.get("a"); len(f.owners()) != 0 || p.Pinned || p.Phase != cri.PhaseReady {
			t.Errorf("pins %v, %+v", f.owners(), p)
		}
		b.facts <- config.NodeFacts{}
		settle(5 * time.Second)
		if p := b.board.get("a"); len(f.owners()) != 1 || !p.Pinned {
			t.Errorf("when it is over: pins %v, %+v", f.owners(), p)
		}
		b.end(t)
	})
}

// A full disk is not tried again in a moment, and an image that is always taken away is not fought for.
func TestWhatIsTriedSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		img := testImage(t, "a")
		f := newFakeRuntime(img)
		f.fail("Pull", &cri.Error{Reason: cri.ReasonDiskFull, Noun: "a", Err: errors.New("ENOSPC")})
		b := startKeeping(t, f, nil, img)
		settle(firstSeldom - 10*time.Second)
		if n, p := f.count("Pull"), b.board.get("a"); n != 1 || p.Reason != cri.ReasonDiskFull {
			t.Errorf("%d pulls, %+v; want one, and the reason", n, p)
		}
		settle(firstSeldom)
		if b.board.get("a").Phase != cri.PhaseReady {
			t.Fatalf("later: %+v", b.board.get("a"))
		}
		f.remove(img)
		settle(2 * time.Second)
		if b.board.get("a").Phase != cri.PhaseReady {
			t.Errorf("the first loss is not mended at once: %+v", b.board.get("a"))
		}
		f.remove(img)
		settle(time.Second)
		if b.board.get("a").Phase != cri.PhaseFailed {
			t.Errorf("no pause after the second: %+v", b.board.get("a"))
		}
		b.end(t)
	})
}

// Two pulls at the same time must both fit: what the one will write is not free for the other.
func TestPullsAtTheSameTimeShareTheRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, y := testImage(t, "x"), testImage(t, "y")
		f := newFakeRuntime(x, y)
		f.setPullTime(time.Minute)
		f.disk = &cri.Disk{Path: "/images", Total: 1000, Free: 700} // 200 must stay free, each needs 300
		b := startKeeping(t, f, func(c *config.Configuration) { c.Pull.MaxParallelImages = 2 }, x, y)
		settle(time.Second)
		first, second := b.board.get("x"), b.board.get("y")
		if first.Phase == cri.PhaseWaiting {
			first, second = second, first
		}
		if first.Phase != cri.PhasePulling || second.Reason != cri.ReasonDiskTooSmall || !strings.Contains(second.Message, "other pulls that run 0.00 GB") {
			t.Errorf("one %s, the other %s: %s", first.Phase, second.Phase, second.Message)
		}
		settle(5 * time.Minute)
		if b.board.get("x").Phase != cri.PhaseReady || b.board.get("y").Phase != cri.PhaseReady {
			t.Errorf("x is %s, y %s", b.board.get("x").Phase, b.board.get("y").Phase)
		}
		b.end(t)
	})
}
