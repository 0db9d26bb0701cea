package agent_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// An agent without a good configuration says what is wrong with it, stays, and begins once it is mended.
func TestAConfigurationThatIsMended(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, ref := n.Push(t, "lab/a:1", 831, 100*kib)
	none := n.start(t)
	answersSoon(t, none, "/readyz", http.StatusServiceUnavailable, "no good configuration", n.config, "no such file")
	if err := none.Stop(); err != nil {
		t.Fatal(err)
	}
	n.write(t, "images: [{name: a, picture: x}]\n")
	a := n.start(t)
	answersSoon(t, a, "/readyz", http.StatusServiceUnavailable, "no good configuration", n.config, "apiVersion", "picture")
	answers(t, a, "/healthz", http.StatusOK)
	n.configure(t, "a", ref)
	untilReady(t, a, "a")
	answers(t, a, "/readyz", http.StatusOK)
}

// answersSoon waits for an answer.
func answersSoon(t *testing.T, a *harness.Agent, path string, want int, words ...string) {
	t.Helper()
	harness.Eventually(t, path+" says "+strings.Join(words, ", "), func() bool {
		code, body, err := a.Get(t.Context(), path)
		for _, w := range words {
			if !strings.Contains(body, w) {
				return false
			}
		}
		return err == nil && code == want
	})
}

// An image that leaves the configuration, or gets another reference, while it is being pulled: the pull ends, what it had
// fetched is let go of, and the next one in the order has its turn.
func TestTheConfigurationChangesInMidPull(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	gone, goneRef := n.Push(t, "lab/gone:1", 841, 8*mib)
	changed, changedRef := n.Push(t, "lab/changed:1", 842, 8*mib)
	_, next := n.Push(t, "lab/changed:2", 843, 100*kib)
	n.Registry.Inject(harness.GetBlob(gone.Layers[0].Digest), harness.Rate(mib))
	n.Registry.Inject(harness.GetBlob(changed.Layers[0].Digest), harness.Rate(mib))
	n.configure(t, "gone", goneRef, "changed", changedRef)
	a := n.start(t)
	n.inMidLayer(t, gone.Layers[0], mib/2)
	if s := until(t, a, "changed", "waiting", func(i status.ImageStatus) bool { return i.Phase == cri.PhaseWaiting }); s.Reason != cri.ReasonQueued {
		t.Errorf("it waits for %q, want its turn", s.Reason)
	}
	n.configure(t, "changed", changedRef)
	n.inMidLayer(t, changed.Layers[0], mib/2)
	n.configure(t, "changed", next)
	harness.Eventually(t, "what it is now is ready", func() bool {
		s, err := a.Status(t.Context())
		i, _ := s.Image("changed")
		return err == nil && ready(i) && i.Reference == next
	})
	harness.Eventually(t, "no lease of ours is left", func() bool { return !strings.Contains(n.MustCtr(t, "leases", "ls", "-q"), "prewarm/") })
	for _, d := range []string{gone.Layers[0].Digest.Encoded()[:12], changed.Layers[0].Digest.Encoded()[:12]} {
		harness.Eventually(t, "what was fetched of it is gone", func() bool {
			return !strings.Contains(n.MustCtr(t, "content", "active")+n.MustCtr(t, "content", "ls", "-q"), d)
		})
	}
}

// Two agents on one node, as when one replaces the other: the second waits for the end of the first, whatever is in its
// configuration, and then goes on from where the first was.
func TestTwoAgentsOnOneNode(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	img, ref := n.Push(t, "lab/a:1", 851, 200*kib, 4*mib)
	n.Registry.Inject(harness.GetBlob(img.Layers[1].Digest), harness.Rate(2*mib))
	n.configure(t, "a", ref)
	a := n.start(t)
	n.inMidLayer(t, img.Layers[1], mib)
	_, other := n.Push(t, "lab/b:1", 852, 100*kib)
	n.configure(t, "b", other) // the first one would let go of what it fetches for a
	b := n.start(t)
	if err := b.UntilLog(harness.Deadline(t), "another agent works on this node"); err != nil {
		t.Fatal(err)
	}
	answersSoon(t, b, "/readyz", http.StatusServiceUnavailable, "another agent works with this runtime")
	n.configure(t, "a", ref, "b", other)
	untilReady(t, a, "a", "b")
	if s, err := b.Status(t.Context()); err != nil || s.Ready || len(s.Images) > 0 {
		t.Errorf("the second agent has %+v, %v", s, err)
	}
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
	untilReady(t, b, "a", "b")
	total := img.Layers[0].Size + img.Layers[1].Size
	if sent := n.Fetched(t, img.Layers...); sent > total+slack {
		t.Errorf("the registry sent %d bytes of %d", sent, total)
	}
	n.Registry.Forget()
	n.MustCrictl(t, "rmi", ref)
	if err := b.UntilLog(harness.Deadline(t), "image is lost"); err != nil {
		t.Error(err)
	}
	untilReady(t, b, "a")
}

// An image that is lost while another is being pulled waits for its turn, and does not tell any more what it was.
func TestALossDuringAPull(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, lost := n.Push(t, "lab/lost:1", 861, 200*kib)
	img, slow := n.Push(t, "lab/slow:1", 862, 4*mib)
	held := make(chan struct{})
	n.Registry.Inject(harness.GetBlob(img.Layers[0].Digest), harness.Stall(mib, held))
	n.configure(t, "lost", lost, "slow", slow)
	a := n.start(t)
	untilReady(t, a, "lost")
	n.inMidLayer(t, img.Layers[0], mib)
	n.MustCrictl(t, "rmi", lost)
	s := until(t, a, "lost", "waiting", func(i status.ImageStatus) bool { return i.Phase == cri.PhaseWaiting })
	if s.Reason != cri.ReasonQueued || s.Bytes.Present+s.Bytes.Fetched != 0 || len(s.Layers) != 0 || s.Verified != "" || !s.ReadyAt.IsZero() || s.Pinned {
		t.Errorf("%+v", s)
	}
	close(held)
	untilReady(t, a, "lost", "slow")
}
