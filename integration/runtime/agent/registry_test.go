package agent_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// nextTry is the wait that the agent has logged with its first record of that reason; it waits for the record.
func nextTry(t *testing.T, a *harness.Agent, image string, reason cri.Reason) (d time.Duration) {
	t.Helper()
	harness.Eventually(t, "the next try is logged", func() bool {
		for line := range strings.Lines(a.Log()) {
			var record struct {
				Image   string
				Reason  cri.Reason
				NextTry *time.Duration
			}
			if json.Unmarshal([]byte(line), &record) == nil && record.NextTry != nil && record.Image == image && record.Reason == reason {
				d = *record.NextTry
				return true
			}
		}
		return false
	})
	return d
}

// How soon an image is tried again depends on why it could not be had, and is logged. A registry that is away for a moment
// is asked again within seconds, and the pull is counted as what it was.
func TestTheNextTryIsLogged(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, flaky := n.Push(t, "lab/flaky:1", 271, 300*kib)
	remove := n.Registry.Inject(harness.Match{Path: regexp.MustCompile("/lab/flaky/")}, harness.Status(http.StatusServiceUnavailable))
	n.configure(t, "flaky", flaky, "missing", n.Registry.Ref("lab/missing:1"))
	a := n.start(t)
	s := until(t, a, "flaky", "failed", failed(cri.ReasonRegistryUnavailable))
	remove()
	if !strings.Contains(s.Message, "503") || !strings.Contains(s.Message, flaky) {
		t.Errorf("message %q, want the reference and what the registry said", s.Message)
	}
	if d := nextTry(t, a, "flaky", cri.ReasonRegistryUnavailable); d < 2*time.Second || d > 3*time.Second {
		t.Errorf("next try of a registry that is away after %v, want 2 to 3 s", d)
	}
	if d := nextTry(t, a, "missing", cri.ReasonImageNotFound); d < time.Minute || d > 90*time.Second {
		t.Errorf("next try of a tag that is not there after %v, want 60 to 90 s", d)
	}
	s = untilReady(t, a, "flaky")[0]
	if s.Reason != "" || s.Message != "" {
		t.Errorf("a ready image still says why it was not: %s %s", s.Reason, s.Message)
	}
	answers(t, a, "/metrics", http.StatusOK, `prewarm_pulls_total{image="flaky",reason="",result="success"} 1`, `prewarm_image_phase{image="missing",phase="failed"} 1`)
}

// A tag that appears after the agent has begun to wait: whoever brings it first, the agent sees it at once.
func TestATagThatAppearsLater(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	ref := n.Registry.Ref("lab/late:1")
	n.configure(t, "late", ref)
	a := n.start(t)
	until(t, a, "late", "failed", failed(cri.ReasonImageNotFound))
	img, _ := n.Push(t, "lab/late:1", 275, 300*kib)
	n.MustCrictl(t, "pull", ref) // as a kubelet does, for a pod
	pulled := time.Now()
	s := untilReady(t, a, "late")[0]
	if took := time.Since(pulled); took > 5*time.Second {
		t.Errorf("seen %v after somebody pulled it", took)
	}
	if s.Digest != img.Descriptor.Digest || s.Bytes.Present != s.Bytes.Total || s.Reason != "" {
		t.Errorf("%+v", s)
	}

	// Another agent, for which it is there from the start, pulls it itself.
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
	n.MustCrictl(t, "rmi", ref)
	if s := untilReady(t, n.start(t), "late")[0]; s.StartedAt.IsZero() {
		t.Errorf("it was not pulled: %+v", s)
	}
}

// An image whose pull failed half-way and that somebody else then brings is told as what it is, not as what the failed
// pull had come to.
func TestAnImageThatIsBroughtAfterAFailure(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{MaxConcurrentDownloads: 1})
	img, ref := n.Push(t, "lab/a:1", 278, 200*kib, 4*mib)
	slow := harness.GetBlob(img.Layers[1].Digest)
	n.Registry.Inject(slow.First(1), harness.Cut(mib))
	broken := n.Registry.Inject(slow.After(1), harness.Status(http.StatusServiceUnavailable))
	n.configure(t, "a", ref)
	a := n.start(t)
	until(t, a, "a", "failed half-way", func(i status.ImageStatus) bool {
		return i.Phase == cri.PhaseFailed && i.Bytes.Fetched > 0 && i.Bytes.Missing() > 0
	})
	broken()
	n.MustCrictl(t, "pull", ref)
	s := untilReady(t, a, "a")[0]
	if s.Bytes.Missing() != 0 {
		t.Errorf("a ready image lacks %d bytes: %+v", s.Bytes.Missing(), s.Bytes)
	}
	for i, l := range s.Layers {
		if l.State != cri.LayerDone || l.Fetched != l.Size {
			t.Errorf("layer %d of a ready image is %s with %d of %d bytes", i, l.State, l.Fetched, l.Size)
		}
	}
}
