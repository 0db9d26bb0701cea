package agent_test

import (
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
				if s.Bytes.Present < 2*mib || s.Bytes.Fetched > slow.Size-2*mib {
					t.Errorf("bytes of the second pull %+v: want what was there to count as present", s.Bytes)
				}
				total := img.Layers[0].Size + img.Layers[1].Size + slow.Size
				sent := n.Fetched(t, img.Layers...)
				if sent > total+slack {
					t.Errorf("the registry sent %d bytes in all, want at most %d", sent, total+slack)
				}
				t.Logf("%d bytes fetched again, ready %v after the new agent was started", sent-total, took)
				leases := n.MustCtr(t, "leases", "ls", "-q")
				if strings.Contains(leases, "prewarm/") || !strings.Contains(leases, "other/lease") {
					t.Errorf("leases: %s, want the other's alone", leases)
				}
			})
		}
	}
}

// containerd may be killed and come back at any time: the agent stays, says so, and goes on.
func TestContainerdComesAndGoes(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, first := n.Push(t, "lab/first:1", 231, 300*kib)
	img, second := n.Push(t, "lab/second:1", 232, 6*mib)
	remove := n.Registry.Inject(harness.GetBlob(img.Layers[0].Digest), harness.Rate(2*mib))
	n.configure(t, "first", first, "second", second)
	a := n.start(t)
	untilReady(t, a, "first")
	n.inMidLayer(t, img.Layers[0], 2*mib)
	n.Kill()
	if _, err := a.Until(harness.Deadline(t), "the runtime is away", func(s status.Snapshot) bool { return s.RuntimeError != "" }); err != nil {
		t.Fatal(err)
	}
	answers(t, a, "/readyz", 503, "container runtime")
	answers(t, a, "/healthz", 200)
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
	untilReady(t, a, "first", "second")
	t.Logf("%d bytes fetched again, ready %v after containerd was started", n.Fetched(t, img.Layers...)-img.Layers[0].Size, time.Since(begun))
	if _, err := a.Until(harness.Deadline(t), "the runtime is back", func(s status.Snapshot) bool { return s.RuntimeError == "" && s.Ready }); err != nil {
		t.Fatal(err)
	}

	// What happened while there was no agent to hear of it, and no containerd either, is seen afterwards.
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
	n.MustCrictl(t, "rmi", first)
	b := n.start(t)
	until(t, b, "first", "pulled again", func(i status.ImageStatus) bool { return ready(i) && !i.StartedAt.IsZero() })
	if s, err := b.Status(harness.Deadline(t)); err != nil {
		t.Error(err)
	} else if i, _ := s.Image("second"); !i.StartedAt.IsZero() {
		t.Errorf("what was there was pulled again: %+v", i)
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
