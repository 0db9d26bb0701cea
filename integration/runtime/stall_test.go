package runtime_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// Case 20: a connection that goes silent in mid-layer, or trickles, ends the pull with a reason; what was fetched is kept.
func TestAStalledPullIsEnded(t *testing.T) {
	for name, fault := range map[string]harness.Fault{
		"silence":          harness.Stall(2*mib, nil),
		"trickle":          harness.Rate(200),
		"no answer at all": harness.Hold(nil),
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, harness.ContainerdOptions{})
			built, img := n.push(t, "lab/stall:1", layers(random(111, 100*kib), random(112, 6*mib)))
			remove := n.reg.Inject(harness.GetBlob(built.Layers[1].Digest), fault)
			begun := time.Now()
			seen, err := tryPull(deadline(t), n.cri, img, cri.PullOptions{Name: "stall", Interval: often, StallTimeout: 1500 * time.Millisecond})
			if cri.ReasonOf(err) != cri.ReasonStalled || !strings.Contains(err.Error(), "1.5s") {
				t.Errorf("pull: %v, want %s and the time", err, cri.ReasonStalled)
			}
			if took := time.Since(begun); took > 15*time.Second {
				t.Errorf("seen after %v", took)
			}
			holdProgress(t, img, seen)
			remove()
			n.settled(t)
			n.reg.Forget()
			if _, err := tryPull(deadline(t), n.cri, img, cri.PullOptions{Name: "stall", Interval: often}); err != nil {
				t.Fatal(err)
			}
			n.ready(t, img)
			if again := n.fetched(t, built.Layers[0]); again != 0 {
				t.Errorf("%d bytes of the first layer were fetched again", again)
			}
		})
	}
}

// A pull that is slow and steady is no stall, however long it takes.
func TestASlowPullIsNoStall(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, img := n.push(t, "lab/slow:1", layers(random(113, 8*mib)))
	n.reg.Inject(harness.GetBlob(""), harness.Rate(2*mib))
	seen, err := tryPull(deadline(t), n.cri, img, cri.PullOptions{Interval: often, StallTimeout: 1500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	holdEnd(t, seen[len(seen)-1])
}
