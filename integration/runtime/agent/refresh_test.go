package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// refreshing writes a configuration whose only image is asked for every second.
func (n *node) refreshing(t *testing.T, ref string) {
	t.Helper()
	n.write(t, fmt.Sprintf("apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\n"+
		"defaults: {refreshInterval: 1s}\nimages: [{name: a, reference: %q}]\n", ref))
}

// Case 40: a tag that moves is followed without a moment in which the image is not ready; back again costs no download; a
// tag or a registry that is gone takes nothing away.
func TestATagMoves(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	first, ref := n.Push(t, "lab/a:1", 601, 200*kib, 1*mib)
	n.refreshing(t, ref)
	a := n.start(t)
	untilReady(t, a, "a")
	watched := watch(t, a)
	is := func(digest string) func(status.ImageStatus) bool {
		return func(i status.ImageStatus) bool {
			return i.Digest.String() == digest && i.Pinned && i.Refresh.Next == nil
		}
	}

	second, _ := n.Push(t, "lab/a:1", 601, 200*kib, 2*mib) // shares its first layer
	n.Registry.Forget()
	until(t, a, "a", "the second version", is(second.Descriptor.Digest.String()))
	if sent := n.Fetched(t, second.Layers...); sent != second.Layers[1].Size {
		t.Errorf("%d bytes were fetched for the second version, want its own layer, %d", sent, second.Layers[1].Size)
	}
	pins := func() string { return n.MustCtr(t, "images", "ls", `labels."prewarm.dev/owner"==a`) }
	harness.Eventually(t, "only the second is pinned", func() bool {
		out := pins()
		return strings.Contains(out, second.Descriptor.Digest.String()) && !strings.Contains(out, first.Descriptor.Digest.String())
	})
	if out := n.MustCrictl(t, "inspecti", "-o", "json", ref); !strings.Contains(out, second.Config.Digest.String()) {
		t.Errorf("the tag still means another image:\n%s", out)
	}

	n.Registry.Forget()
	if err := first.Push(n.Registry, "lab/a", "1"); err != nil {
		t.Fatal(err)
	}
	until(t, a, "a", "the first version again", is(first.Descriptor.Digest.String()))
	if sent := n.Fetched(t, first.Layers...); sent > 0 {
		t.Errorf("%d bytes were fetched of what was still there", sent)
	}

	if err := n.Registry.DeleteManifest("lab/a", "1"); err != nil {
		t.Fatal(err)
	}
	s := until(t, a, "a", "told that its tag is gone", func(i status.ImageStatus) bool { return i.Refresh.Reason == cri.ReasonImageNotFound })
	if !ready(s) || s.Refresh.CheckedAt.IsZero() {
		t.Errorf("%+v", s)
	}
	if err := n.Registry.Close(); err != nil {
		t.Fatal(err)
	}
	s = until(t, a, "a", "told that the registry is away", func(i status.ImageStatus) bool { return i.Refresh.Reason == cri.ReasonRegistryUnavailable })
	if !ready(s) || !s.Pinned {
		t.Errorf("%+v", s)
	}
	for len(watched) > 0 {
		if i := <-watched; !ready(i) {
			t.Errorf("there was a moment in which it was not ready: %+v", i)
		}
	}
	answers(t, a, "/metrics", 200, `prewarm_refreshes_total{image="a",reason="ImageNotFound"}`, `prewarm_refreshes_total{image="a",reason=""}`)
}

// A reference with a digest means the same for ever: the registry is asked nothing.
func TestADigestIsNeverRefreshed(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	img, ref := n.Push(t, "lab/a:1", 611, 200*kib)
	_, other := n.Push(t, "lab/b:1", 612, 200*kib)
	n.write(t, fmt.Sprintf("apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\ndefaults: {refreshInterval: 1s}\n"+
		"images: [{name: a, reference: %q}, {name: b, reference: %q}]\n", ref+"@"+img.Descriptor.Digest.String(), other))
	a := n.start(t)
	untilReady(t, a, "a", "b")
	n.Registry.Forget()
	until(t, a, "b", "asked for", func(i status.ImageStatus) bool { return !i.Refresh.CheckedAt.IsZero() })
	if list := n.Registry.Requests().String(); strings.Contains(list, "/lab/a/") {
		t.Errorf("the registry was asked for it:\n%s", list)
	}
}

// Case 34: the kubelet pulls the tag again, which replaces what is written on it; the pin stays.
func TestAPinStaysWhenTheKubeletPulls(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	img, ref := n.Push(t, "lab/a:1", 621, 200*kib)
	n.configure(t, "a", ref)
	a := n.start(t)
	until(t, a, "a", "pinned", func(i status.ImageStatus) bool { return ready(i) && i.Pinned })
	n.MustCrictl(t, "pull", ref)
	n.MustCtr(t, "images", "label", img.Config.Digest.String(), "io.cri-containerd.pinned=")
	until(t, a, "a", "pinned again", func(status.ImageStatus) bool {
		return strings.Contains(n.MustCtr(t, "images", "ls", "name=="+img.Config.Digest.String()), "io.cri-containerd.pinned=pinned")
	})
	answers(t, a, "/metrics", 200, `prewarm_pins_restored_total{image="a"} 1`)
	if s, err := a.Status(harness.Deadline(t)); err != nil || !s.Ready {
		t.Errorf("%v, %v", s.Ready, err)
	}
}
