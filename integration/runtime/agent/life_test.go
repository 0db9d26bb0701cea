package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/agent/metrics"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// The main job: what the configuration names is pulled, layer by layer for all to see, proven and pinned.
func TestImagesBecomeReady(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	cpu, cpuRef := n.Push(t, "lab/cpu:1", 201, 300*kib, 3*mib)
	gpu, gpuRef := n.Push(t, "lab/gpu:1", 201, 300*kib, 4*mib) // shares its first layer
	n.Registry.Inject(harness.GetBlob(""), harness.Rate(2*mib))
	n.configure(t, "cpu", cpuRef, "gpu", gpuRef)
	a := n.start(t, "-o", "json")
	watched := watch(t, a)
	pulling := until(t, a, "cpu", "being pulled", func(i status.ImageStatus) bool { return i.Bytes.Fetched > 0 && i.Phase == cri.PhasePulling })
	if pulling.Bytes.Total != cpu.Layers[0].Size+cpu.Layers[1].Size || len(pulling.Layers) != 2 || pulling.StartedAt.IsZero() {
		t.Errorf("while it is pulled: %+v", pulling)
	}
	answers(t, a, "/readyz", http.StatusOK) // the agent is, though the images are not
	answers(t, a, "/healthz", http.StatusOK)
	states := untilReady(t, a, "cpu", "gpu")
	for i, img := range []struct{ digest, reference string }{
		{cpu.Descriptor.Digest.String(), cpuRef}, {gpu.Descriptor.Digest.String(), gpuRef},
	} {
		s := states[i]
		if s.Digest.String() != img.digest || s.Reference != img.reference || s.Verified != cri.VerifiedSnapshots || s.ReadyAt.IsZero() ||
			s.Bytes.Present+s.Bytes.Fetched != s.Bytes.Total || s.Reason != "" {
			t.Errorf("state %+v, want it ready with digest %s", s, img.digest)
		}
	}
	if present := states[1].Bytes.Present; present != gpu.Layers[0].Size {
		t.Errorf("%d bytes of gpu were present, want its shared layer, %d", present, gpu.Layers[0].Size)
	}
	if got, want := n.Fetched(t, cpu.Layers[0], cpu.Layers[1], gpu.Layers[1]), cpu.Layers[0].Size+cpu.Layers[1].Size+gpu.Layers[1].Size; got != want {
		t.Errorf("the registry sent %d bytes, want each layer once: %d", got, want)
	}
	holdEvents(t, watched, "cpu", "gpu")
	harness.Eventually(t, "the last change is on stdout", func() bool { return strings.Contains(lastLine(a.Stdout()), `"phase":"ready"`) })
	if err := a.UntilLog(harness.Deadline(t), "prewarm.dev/image-ready=true"); err != nil {
		t.Error(err)
	}
	holdMetrics(t, a)
	if out := n.MustCrictl(t, "ps", "-a", "-q") + n.MustCrictl(t, "pods", "-q"); out != "" {
		t.Errorf("containers or sandboxes were made: %s", out)
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// watch reads /v1/watch until the test ends; each image's states come on the channel.
func watch(t *testing.T, a *harness.Agent) <-chan status.ImageStatus {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+"/v1/watch", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req) //nolint:bodyclose,forbidigo // closed at the end of the test; a stream wants no time limit
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan status.ImageStatus, 10000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, mib)
		name := ""
		for lines.Scan() {
			if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = event
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if ok && !json.Valid([]byte(data)) {
				t.Errorf("event %s is no JSON: %s", name, data)
			}
			if !ok || name != status.EventImage {
				continue
			}
			var i status.ImageStatus
			if err := json.Unmarshal([]byte(data), &i); err != nil {
				t.Errorf("event %s: %v", data, err)
			}
			out <- i
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = resp.Body.Close()
	})
	return out
}

// holdEvents holds what was seen of images until they were ready to the rules of progress.
func holdEvents(t *testing.T, events <-chan status.ImageStatus, names ...string) {
	t.Helper()
	last := map[string]status.ImageStatus{}
	timeout := time.NewTimer(harness.Patience)
	defer timer(timeout)
	for left := len(names); left > 0; {
		select {
		case i := <-events:
			before := last[i.Image]
			if !mayFollow(before.Phase, i.Phase) {
				t.Errorf("%s went from %q to %q", i.Image, before.Phase, i.Phase)
			}
			if len(before.Layers) == len(i.Layers) {
				for n, l := range i.Layers {
					if b := before.Layers[n]; l.Fetched < b.Fetched || l.Fetched > l.Size || l.State.Before(b.State) {
						t.Errorf("%s: layer %d went from %+v to %+v", i.Image, n, b, l)
					}
				}
			}
			if here, was := i.Bytes.Present+i.Bytes.Fetched, before.Bytes.Present+before.Bytes.Fetched; here < was || here > i.Bytes.Total {
				t.Errorf("%s: bytes went from %+v to %+v", i.Image, before.Bytes, i.Bytes)
			}
			if ready(i) && !ready(before) {
				left--
			}
			last[i.Image] = i
		case <-timeout.C:
			t.Fatalf("not all of %v came to be ready on /v1/watch", names)
		}
	}
}

func timer(t *time.Timer) { t.Stop() }

// holdMetrics wants every metric that the README lists, but for those of what has not happened.
func holdMetrics(t *testing.T, a *harness.Agent) {
	t.Helper()
	_, body, err := a.Get(harness.Deadline(t), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range metrics.Docs() {
		switch d.Name {
		case "prewarm_images_lost_total", "prewarm_pins_restored_total", "prewarm_refreshes_total", "prewarm_api_writes_total":
			continue
		}
		if !strings.Contains(body, "\n"+d.Name) {
			t.Errorf("/metrics has no %s", d.Name)
		}
	}
	for _, line := range []string{
		"prewarm_node_ready 1", `prewarm_image_ready{image="cpu"} 1`, `prewarm_image_pinned{image="gpu"} 1`, `prewarm_pulls_total{image="cpu",reason="",result="success"} 1`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("/metrics does not say %s", line)
		}
	}
}

// An image that is lost is told to be within a second, whoever took it and how, and comes back.
func TestALossIsSeenAndMended(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, ref := n.Push(t, "lab/a:1", 211, 300*kib, 1*mib)
	n.configure(t, "a", ref)
	var top string
	for _, c := range []struct {
		name   string
		reason cri.Reason
		remove func()
	}{
		{"crictl rmi", cri.ReasonNotPresent, func() { n.MustCrictl(t, "rmi", ref) }},
		{"the name alone", cri.ReasonNotPresent, func() { n.MustCtr(t, "images", "rm", ref) }},
		{"a snapshot", cri.ReasonNotUnpacked, func() { n.MustCtr(t, "snapshots", "--snapshotter", n.Snapshotter, "rm", top) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := n.start(t)
			untilReady(t, a, "a")
			top = topSnapshot(t, n)
			// The registry does not answer, so that the loss can be looked at.
			held := make(chan struct{})
			remove := n.Registry.Inject(harness.Match{}, harness.Hold(held))
			removed := time.Now()
			c.remove()
			s := until(t, a, "a", "lost", func(i status.ImageStatus) bool { return !ready(i) })
			if took := time.Since(removed); took > atOnce {
				t.Errorf("seen after %v", took)
			}
			t.Logf("not ready any more %v after the command was started: %s %s", time.Since(removed), s.Phase, s.Reason)
			remove()
			close(held)
			untilReady(t, a, "a")
			_, body, err := a.Get(harness.Deadline(t), "/metrics")
			if want := `prewarm_images_lost_total{image="a",reason="` + string(c.reason) + `"} 1`; err != nil || !strings.Contains(body, want) {
				t.Errorf("/metrics does not say %s, %v", want, err)
			}
		})
	}
}

// Blobs are not what an image starts from: without them it stays ready, also when it is looked at, and for a new agent.
func TestAnImageWithoutItsBlobsIsNotLost(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	img, ref := n.Push(t, "lab/a:1", 215, 300*kib, 1*mib)
	n.configure(t, "a", ref)
	a := n.start(t)
	until(t, a, "a", "pinned", func(i status.ImageStatus) bool { return ready(i) && i.Pinned })
	watched := watch(t, a)
	for _, l := range img.Layers {
		n.MustCtr(t, "content", "rm", l.Digest.String())
	}
	// A pin that is gone is set again in the look that proves the image.
	n.MustCtr(t, "images", "label", img.Config.Digest.String(), "io.cri-containerd.pinned=")
	harness.Eventually(t, "the agent has looked", func() bool {
		return strings.Contains(n.MustCtr(t, "images", "ls", "name=="+img.Config.Digest.String()), "io.cri-containerd.pinned=pinned")
	})
	foundByANewAgent(t, n, a, "a")
	for len(watched) > 0 {
		if i := <-watched; !ready(i) {
			t.Errorf("there was a moment in which it was not ready: %+v", i)
		}
	}
}

// The same where containerd itself discards them, as on EKS.
func TestAnImageWhoseBlobsWereDiscardedIsFound(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{DiscardUnpackedLayers: true})
	img, ref := n.Push(t, "lab/a:1", 215, 300*kib, 1*mib)
	n.configure(t, "a", ref)
	a := n.start(t)
	untilReady(t, a, "a")
	harness.Eventually(t, "the blobs are discarded", func() bool {
		return !strings.Contains(n.MustCtr(t, "content", "ls", "-q"), img.Layers[1].Digest.String())
	})
	foundByANewAgent(t, n, a, "a")
}

// foundByANewAgent wants the next agent to find an image ready, and to ask the registry nothing.
func foundByANewAgent(t *testing.T, n *node, old *harness.Agent, name string) {
	t.Helper()
	if err := old.Stop(); err != nil {
		t.Fatal(err)
	}
	n.Registry.Forget()
	s := untilReady(t, n.start(t), name)[0]
	if s.Verified != cri.VerifiedSnapshots || !s.StartedAt.IsZero() || s.Bytes.Present != s.Bytes.Total {
		t.Errorf("%+v", s)
	}
	if list := n.Registry.Requests(); len(list) > 0 {
		t.Errorf("the registry was asked:\n%s", list)
	}
}

// topSnapshot is the snapshot that no other stands on.
func topSnapshot(t *testing.T, n *node) string {
	t.Helper()
	parents := map[string]bool{}
	var names []string
	for line := range strings.Lines(n.MustCtr(t, "snapshots", "--snapshotter", n.Snapshotter, "ls")) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] == "KEY" {
			continue
		}
		names = append(names, f[0])
		if len(f) == 3 {
			parents[f[1]] = true
		}
	}
	for _, name := range names {
		if !parents[name] {
			return name
		}
	}
	t.Fatalf("no top among snapshots %v", names)
	return ""
}
