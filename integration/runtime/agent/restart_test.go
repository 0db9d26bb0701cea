package agent_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// slack is how much of a layer may be fetched twice when a pull is broken off: what was on the way.
const slack = mib

// Case 38: a new agent goes on where the last one was broken off, however that was and however containerd pulls.
func TestAnAgentGoesOnWhereTheLastWasBrokenOff(t *testing.T) {
	for mode, o := range map[string]harness.ContainerdOptions{
		"transfer": {MaxConcurrentDownloads: 1}, "local": {MaxConcurrentDownloads: 1, LocalPull: true}, "discard": {MaxConcurrentDownloads: 1, DiscardUnpackedLayers: true},
	} {
		for how, end := range map[string]func(*testing.T, *harness.Agent){
			"SIGTERM": func(t *testing.T, a *harness.Agent) {
				if err := a.Stop(); err != nil {
					t.Error(err)
				}
			},
			"SIGKILL": func(_ *testing.T, a *harness.Agent) { a.Kill() },
		} {
			t.Run(mode+"/"+how, func(t *testing.T) {
				n := newNode(t, o)
				img, ref := n.Push(t, "lab/resume:1", 221, 200*kib, 300*kib, 8*mib)
				slow := img.Layers[2]
				remove := n.Registry.Inject(harness.GetBlob(slow.Digest), harness.Rate(3*mib))
				n.MustCtr(t, "leases", "create", "--id", "other/lease", "--expires", "1h", "owner=somebody")
				n.configure(t, "resume", ref)
				a := n.start(t)
				n.inMidLayer(t, slow, 3*mib)
				end(t, a)
				remove()
				begun := time.Now()
				b := n.start(t)
				s := untilReady(t, b, "resume")[0]
				took := time.Since(begun)
				if s.Bytes.Present < 2*mib || s.Bytes.Fetched > slow.Size-2*mib || s.Bytes.Missing() != 0 {
					t.Errorf("bytes of the second pull %+v: want what was there to count as present", s.Bytes)
				}
				for i, l := range img.Layers[:2] {
					if sent := n.Fetched(t, l); sent != l.Size {
						t.Errorf("of layer %d, which was complete, the registry sent %d bytes in all, want %d", i, sent, l.Size)
					}
				}
				again := n.Fetched(t, slow) - slow.Size
				if again > slack {
					t.Errorf("%d bytes of the layer that was broken off were fetched again, want at most %d", again, slack)
				}
				t.Logf("%d bytes fetched again, ready %v after the new agent was started", again, took)
				leases := n.MustCtr(t, "leases", "ls", "-q")
				if strings.Contains(leases, "prewarm/") || !strings.Contains(leases, "other/lease") {
					t.Errorf("leases: %s, want the other's alone", leases)
				}
			})
		}
	}
}

// containerd may be killed, or restarted as for an upgrade, at any time: the agent stays, says so, and goes on.
func TestContainerdComesAndGoes(t *testing.T) {
	for name, o := range map[string]harness.ContainerdOptions{"transfer": {}, "discard": {DiscardUnpackedLayers: true}} {
		for how, end := range map[string]func(*node) error{
			"SIGKILL": func(n *node) error { n.Kill(); return nil },
			"SIGTERM": func(n *node) error { return n.Stop() },
		} {
			t.Run(name+"/"+how, func(t *testing.T) { comesAndGoes(t, o, end) })
		}
	}
}

func comesAndGoes(t *testing.T, o harness.ContainerdOptions, end func(*node) error) {
	t.Helper()
	n := newNode(t, o)
	_, first := n.Push(t, "lab/first:1", 231, 300*kib)
	img, second := n.Push(t, "lab/second:1", 232, 6*mib)
	remove := n.Registry.Inject(harness.GetBlob(img.Layers[0].Digest), harness.Rate(3*mib))
	n.configure(t, "first", first, "second", second)
	a := n.start(t)
	before := untilReady(t, a, "first")[0]
	n.inMidLayer(t, img.Layers[0], 2*mib)
	if err := end(n); err != nil {
		t.Fatal(err)
	}
	away(t, a)
	answers(t, a, "/readyz", http.StatusServiceUnavailable, "container runtime")
	answers(t, a, "/healthz", http.StatusOK)
	s := until(t, a, "second", "failed", func(i status.ImageStatus) bool { return i.Phase == cri.PhaseFailed })
	if s.Reason != cri.ReasonRuntimeUnavailable {
		t.Errorf("the pull ended with %s (%s), want %s", s.Reason, s.Message, cri.ReasonRuntimeUnavailable)
	}
	if s, err := a.Status(harness.Deadline(t)); err != nil {
		t.Error(err)
	} else if i, _ := s.Image("first"); !ready(i) {
		t.Errorf("an image of which nothing is known is told to be lost: %+v", i)
	}
	remove()
	begun := time.Now()
	if err := n.Restart(harness.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	now, _ := back(t, a).Image("first")
	took, again := time.Since(begun), n.Fetched(t, img.Layers...)-img.Layers[0].Size
	t.Logf("%d bytes fetched again, ready %v after containerd was started", again, took)
	if again > slack {
		t.Errorf("%d bytes were fetched again, want at most %d", again, slack)
	}
	if !now.ReadyAt.Equal(before.ReadyAt) {
		t.Errorf("what was ready was lost meanwhile: %+v", now)
	}
}

// What happened while there was no agent is seen by the next one.
func TestADeletionWithoutAnAgent(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, first := n.Push(t, "lab/first:1", 231, 300*kib)
	_, second := n.Push(t, "lab/second:1", 233, 300*kib)
	n.configure(t, "first", first, "second", second)
	a := n.start(t)
	untilReady(t, a, "first", "second")
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
	n.MustCrictl(t, "rmi", first)
	states := untilReady(t, n.start(t), "first", "second")
	if states[0].StartedAt.IsZero() || !states[1].StartedAt.IsZero() {
		t.Errorf("want the first to have been pulled and the second not: %+v", states)
	}
}

// On a machine that boots the agent may be there before containerd.
func TestTheAgentWaitsForContainerd(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, ref := n.Push(t, "lab/a:1", 241, 300*kib)
	n.configure(t, "a", ref)
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	a := n.start(t)
	if _, err := a.Until(harness.Deadline(t), "it waits", func(s status.Snapshot) bool { return s.RuntimeError != "" }); err != nil {
		t.Fatal(err)
	}
	answers(t, a, "/readyz", 503, n.Socket())
	if err := n.Restart(harness.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	untilReady(t, a, "a")
}

// One image that cannot be had does not keep the others from being pulled, and is there once it can be had.
func TestFaultsOfARegistry(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, good := n.Push(t, "lab/good:1", 251, 300*kib)
	img, flaky := n.Push(t, "lab/flaky:1", 252, 400*kib)
	n.Registry.Inject(harness.GetBlob(img.Layers[0].Digest).First(4), harness.Status(503))
	n.configure(t, "missing", n.Registry.Ref("lab/missing:1"), "nowhere", "nowhere.invalid/lab/a:1", "flaky", flaky, "good", good)
	a := n.start(t)
	untilReady(t, a, "good")
	missing := until(t, a, "missing", "failed", failed(cri.ReasonImageNotFound))
	if !strings.Contains(missing.Message, "lab/missing:1") {
		t.Errorf("message %q does not name the reference", missing.Message)
	}
	until(t, a, "nowhere", "failed", func(i status.ImageStatus) bool {
		// Which of both depends on whether the machine has a name server at all.
		return failed(cri.ReasonUnknownHost)(i) || failed(cri.ReasonRegistryUnavailable)(i)
	})
	untilReady(t, a, "flaky")
	if s, err := a.Status(harness.Deadline(t)); err != nil || s.Ready {
		t.Errorf("the node is ready without all images: %v, %v", s.Ready, err)
	}
}
