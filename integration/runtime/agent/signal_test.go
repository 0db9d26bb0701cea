package agent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// SIGTERM ends an agent in good order, and soon, whatever it is doing (see harness.Agent.Stop), and another one goes on.
func TestSIGTERMInEveryPhase(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	img, ref := n.Push(t, "lab/a:1", 801, 200*kib, 2*mib)
	_, other := n.Push(t, "lab/b:1", 802, 200*kib)
	n.configure(t, "a", ref, "b", other)
	for phase, at := range map[cri.Phase]struct {
		match harness.Match
		fault harness.Fault
		image string
	}{
		cri.PhaseResolving: {harness.Manifests(), harness.Hold(nil), "a"},
		cri.PhasePulling:   {harness.GetBlob(img.Layers[1].Digest), harness.Stall(mib, nil), "a"},
		cri.PhaseWaiting:   {harness.GetBlob(img.Layers[1].Digest), harness.Hold(nil), "b"},
		cri.PhaseFailed:    {harness.Manifests(), harness.Status(503), "a"},
	} {
		remove := n.Registry.Inject(at.match, at.fault)
		a := n.start(t)
		until(t, a, at.image, string(phase), func(i status.ImageStatus) bool { return i.Phase == phase })
		begun := time.Now()
		if err := a.Stop(); err != nil {
			t.Errorf("%s: %v", phase, err)
		}
		t.Logf("%s: ended after %v", phase, time.Since(begun))
		remove()
	}
	a := n.start(t)
	untilReady(t, a, "a", "b")
	if err := a.Stop(); err != nil {
		t.Errorf("ready: %v", err)
	}
	if strings.Contains(a.Log(), `"level":"ERROR"`) {
		t.Errorf("errors in the log:\n%s", a.Log())
	}
}
