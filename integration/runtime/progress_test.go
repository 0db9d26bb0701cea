package runtime_test

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// holdProgress holds what a pull shows to the rules: nothing goes back, nothing passes its size, what is said of the whole
// is the sum of what is said of the layers, and phases follow their table.
func holdProgress(t *testing.T, img cri.Image, seen []cri.Progress) {
	t.Helper()
	if len(seen) == 0 {
		t.Fatal("the pull showed nothing")
	}
	last := seen[0]
	for i, p := range seen {
		if p.Detail != cri.DetailLayers || p.Reference != img.Reference.String() || p.Digest != img.Digest || p.StartedAt.IsZero() {
			t.Fatalf("%d: detail %q, reference %s, digest %s, started %v", i, p.Detail, p.Reference, p.Digest, p.StartedAt)
		}
		b := p.Bytes
		if b.Total != last.Bytes.Total || b.Present != last.Bytes.Present || b.Fetched < last.Bytes.Fetched || b.Present+b.Fetched > b.Total {
			t.Fatalf("%d: bytes %+v after %+v", i, b, last.Bytes)
		}
		if !cri.CanMove(last.Phase, p.Phase) {
			t.Fatalf("%d: phase %s after %s", i, p.Phase, last.Phase)
		}
		holdLayers(t, img, last, p)
		last = p
	}
}

func holdLayers(t *testing.T, img cri.Image, last, p cri.Progress) {
	t.Helper()
	if len(p.Layers) != len(img.Layers) {
		t.Fatalf("progress has %d layers, the image %d", len(p.Layers), len(img.Layers))
	}
	here := map[digest.Digest]int64{}
	for i, l := range p.Layers {
		want, before := img.Layers[i], last.Layers[i]
		if l.Digest != want.Digest || l.ChainID != want.ChainID || l.Size != want.Size {
			t.Fatalf("layer %d is %s, %d bytes, the manifest has %s, %d bytes", i, l.Digest, l.Size, want.Digest, want.Size)
		}
		if l.Fetched < before.Fetched || l.Fetched > l.Size || l.State.Before(before.State) || l.Since.Before(before.Since) {
			t.Fatalf("layer %d: %+v after %+v", i, l, before)
		}
		here[l.Digest] = l.Fetched
	}
	var sum int64
	for _, n := range here {
		sum += n
	}
	if sum != p.Bytes.Present+p.Bytes.Fetched {
		t.Fatalf("the layers have %d bytes, the whole says %+v", sum, p.Bytes)
	}
}

// holdEnd wants the last word of a good pull: all bytes here, all layers unpacked.
func holdEnd(t *testing.T, p cri.Progress) {
	t.Helper()
	if p.Bytes.Missing() != 0 || p.Bytes.Present+p.Bytes.Fetched != p.Bytes.Total || p.Bytes.Fraction() != 1 {
		t.Fatalf("the pull has ended with bytes %+v", p.Bytes)
	}
	for i, l := range p.Layers {
		if l.State != cri.LayerDone || l.Fetched != l.Size {
			t.Fatalf("the pull has ended with layer %d %s, %d of %d bytes", i, l.State, l.Fetched, l.Size)
		}
	}
}

// modes are the two ways in which containerd pulls, and the one of EKS nodes.
func modes() map[string]harness.ContainerdOptions {
	return map[string]harness.ContainerdOptions{
		"transfer": {}, "local": {LocalPull: true}, "discard": {DiscardUnpackedLayers: true},
	}
}

// A pull of three layers from a slow registry shows bytes that move, layer by layer, and sums that are the manifest's.
func TestProgress(t *testing.T) {
	for name, o := range modes() {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, o)
			built, img := n.push(t, "lab/progress:1", layers(random(1, 300*kib), random(2, 2*mib), random(3, 5*mib)))
			for i, l := range built.Layers {
				if got := img.Layers[i]; got.Digest != l.Digest || got.Size != l.Size || got.MediaType != l.MediaType {
					t.Fatalf("layer %d resolved as %+v, the manifest has %+v", i, got, l)
				}
			}
			n.reg.Inject(harness.GetBlob(""), harness.Rate(5*mib))
			seen := n.pull(t, img)
			if first := seen[0].Bytes; first != (cri.Bytes{Total: sum(built.Layers...)}) {
				t.Errorf("the pull begins with %+v, want nothing of %d bytes", first, sum(built.Layers...))
			}
			if got, want := seen[len(seen)-1].Bytes.Fetched, n.fetched(t, built.Layers...); got != want {
				t.Errorf("progress says that %d bytes were fetched, the registry sent %d", got, want)
			}
			if moved := between(seen, 2); moved < 4 {
				t.Errorf("the largest layer was seen in %d places between nothing and all, want 4 or more", moved)
			}
			n.ready(t, img)
		})
	}
}

// between counts the different numbers of bytes at which a layer was seen in the middle of being fetched. containerd writes
// what it fetches in parts of 1 MiB (core/content, Copy), so there are no more of them than the layer has MiB.
func between(seen []cri.Progress, layer int) int {
	places := map[int64]bool{}
	for _, p := range seen {
		if l := p.Layers[layer]; l.Fetched > 0 && l.Fetched < l.Size {
			places[l.Fetched] = true
		}
	}
	return len(places)
}

// Only the third layer is slow: percent moves while it comes, the other two are unpacked meanwhile, and speed and time left
// are those of the slow connection.
func TestProgressOfASlowThirdLayer(t *testing.T) {
	const speed = 5 * mib
	n := newNode(t, harness.ContainerdOptions{})
	built, img := n.push(t, "lab/slow:1", layers(random(11, 300*kib), random(12, 300*kib), random(13, 12*mib)))
	n.reg.Inject(harness.GetBlob(built.Layers[2].Digest), harness.Rate(speed))
	seen := n.pull(t, img)
	states := map[cri.LayerState]bool{}
	var rate, timeLeft float64
	for _, p := range seen {
		if l := p.Layers; l[0].State == cri.LayerDone && l[1].State == cri.LayerDone {
			states[l[2].State] = true
		}
		if p.ETASeconds != nil && p.Layers[2].Fetched > 5*mib {
			rate, timeLeft = p.Rate, *p.ETASeconds
		}
	}
	if !states[cri.LayerFetching] || !states[cri.LayerDone] {
		t.Errorf("with the others unpacked the slow layer was seen in states %v, want fetching and done", states)
	}
	if moved := between(seen, 2); moved < 10 {
		t.Errorf("the slow layer was seen in %d places between nothing and all, want 10 or more", moved)
	}
	if rate < speed/2 || rate > 2*speed || timeLeft > 3 {
		t.Errorf("%.0f bytes a second, %.1f s left; the layer comes with %d bytes a second", rate, timeLeft, speed)
	}
}
