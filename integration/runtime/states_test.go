package runtime_test

import (
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// statesNode has an image that is ready, of which the test may take pieces away (case 37). Its upper layer is not shared.
func statesNode(t *testing.T) (*node, *images.Image, cri.Image) {
	t.Helper()
	n := newNode(t, harness.ContainerdOptions{})
	built, img := n.push(t, "lab/states:1", layers(random(81, 200*kib), random(82, 300*kib)))
	n.pull(t, img)
	n.ready(t, img)
	n.settled(t)
	n.reg.Forget()
	return n, built, img
}

// stillListed wants CRI to go on saying that the image is there, which is why its word alone proves nothing.
func (n *node) stillListed(t *testing.T, img cri.Image) {
	t.Helper()
	if out := n.crictl(t, "images", "-q"); out != img.Config.String()+"\n" {
		t.Fatalf("crictl lists %q, want %s: the test shows nothing", out, img.Config)
	}
}

// removeBlobs removes blobs behind everybody's back. Their files go with the next garbage collection; until then containerd
// takes a blob from its file.
func (n *node) removeBlobs(t *testing.T, l ...images.Layer) {
	t.Helper()
	for _, x := range l {
		n.ctr(t, "content", "rm", x.Digest.String())
	}
	n.collect(t)
	for _, x := range l {
		if n.hasBlob(t, x.Digest) {
			t.Fatalf("blob %s is still there", x.Digest)
		}
	}
}

// State 1: top snapshot and its blob are gone. A pull fetches that blob again, and nothing else.
func TestSnapshotAndBlobAreGone(t *testing.T) {
	n, built, img := statesNode(t)
	n.removeTop(t, img)
	n.removeBlobs(t, built.Layers[1])
	n.stillListed(t, img)
	n.notReady(t, img, cri.ErrNotUnpacked)
	if p := n.plan(t, img); p.Fetch != built.Layers[1].Size || p.Unpack == 0 {
		t.Errorf("planned to fetch %d bytes and to unpack %d, want %d and some", p.Fetch, p.Unpack, built.Layers[1].Size)
	}
	n.pull(t, img)
	n.ready(t, img)
	if lower, upper := n.fetched(t, built.Layers[0]), n.fetched(t, built.Layers[1]); lower != 0 || upper != built.Layers[1].Size {
		t.Errorf("fetched %d bytes of the lower layer and %d of the upper, want 0 and %d", lower, upper, built.Layers[1].Size)
	}
}

// State 2: the blobs are gone, the snapshots are there. The image is ready, and there is nothing to fetch.
func TestBlobsAreGone(t *testing.T) {
	n, built, img := statesNode(t)
	n.removeBlobs(t, built.Layers...)
	n.stillListed(t, img)
	n.ready(t, img)
	if p := n.plan(t, img); p.Fetch != 0 || p.Unpack != 0 {
		t.Errorf("planned to fetch %d bytes and to unpack %d", p.Fetch, p.Unpack)
	}
	n.pull(t, img)
	n.ready(t, img)
	if got := n.fetched(t, built.Layers...); got != 0 {
		t.Errorf("fetched %d bytes of layers that are unpacked", got)
	}
}

// State 3: the top snapshot is gone, its blob is there. A pull unpacks and fetches nothing.
func TestASnapshotIsGone(t *testing.T) {
	n, built, img := statesNode(t)
	n.removeTop(t, img)
	n.stillListed(t, img)
	n.notReady(t, img, cri.ErrNotUnpacked)
	if p := n.plan(t, img); p.Fetch != 0 || p.Unpack == 0 {
		t.Errorf("planned to fetch %d bytes and to unpack %d, want 0 and some", p.Fetch, p.Unpack)
	}
	seen := n.pull(t, img)
	if b := seen[0].Bytes; b.Present != b.Total {
		t.Errorf("the pull begins with %+v, want all present", b)
	}
	n.ready(t, img)
	if got := n.fetched(t, built.Layers...); got != 0 {
		t.Errorf("fetched %d bytes of layers that were stored", got)
	}
}
