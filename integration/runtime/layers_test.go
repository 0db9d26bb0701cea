package runtime_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

const dockerGzip = "application/vnd.docker.image.rootfs.diff.tar.gzip"

// packed is a layer in a compression, under a media type that may be wrong.
func packed(c images.Compression, mediaType string) images.LayerSpec {
	l := random(71, 200*kib)
	l.Compression, l.MediaType = c, mediaType
	return l
}

// Every compression that containerd unpacks is ready afterwards, also where the media type is not quite right (case 16),
// and so are images without bytes in them (cases 17 and 54).
func TestLayersOfEveryKind(t *testing.T) {
	static := images.LayerSpec{Content: []images.Content{images.File("init", []byte("\x7fELF a static program\n"))}}
	for name, tc := range map[string]images.Spec{
		"gzip":                  layers(packed(images.Gzip, "")),
		"Docker's gzip":         {Docker: true, Layers: []images.LayerSpec{packed(images.Gzip, "")}},
		"zstd":                  layers(packed(images.Zstd, "")),
		"Docker's zstd":         {Docker: true, Layers: []images.LayerSpec{packed(images.Zstd, "")}},
		"uncompressed":          layers(packed(images.Uncompressed, "")),
		"Docker's uncompressed": {Docker: true, Layers: []images.LayerSpec{packed(images.Uncompressed, "")}},
		"zstd, gzip on it":      layers(packed(images.Zstd, ocispec.MediaTypeImageLayerGzip)),
		"Docker's zstd, gzip on it": {
			Docker: true, Layers: []images.LayerSpec{packed(images.Zstd, dockerGzip)},
		},
		"empty layers":       layers(random(72, 20*kib), images.LayerSpec{}, images.LayerSpec{Compression: images.Zstd}),
		"no layers":          {Labels: map[string]string{"layers": "none"}},
		"one static program": layers(static),
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, harness.ContainerdOptions{})
			built, img := n.push(t, "lab/kind:1", tc)
			plan := n.plan(t, img)
			if plan.Fetch != sum(built.Layers...) {
				t.Errorf("planned to fetch %d bytes, want %d", plan.Fetch, sum(built.Layers...))
			}
			for _, p := range n.pull(t, img) {
				if f := p.Bytes.Fraction(); f < 0 || f > 1 || f != f {
					t.Errorf("%f of the bytes are here", f)
				}
				if _, err := json.Marshal(p); err != nil { // infinities and no-numbers have no JSON
					t.Error(err)
				}
			}
			n.ready(t, img)
			if got := n.fetched(t, built.Layers...); got != sum(built.Layers...) {
				t.Errorf("fetched %d bytes of an image of %d", got, sum(built.Layers...))
			}
			if got := n.crictl(t, "ps", "-a", "-q") + n.crictl(t, "pods", "-q"); got != "" {
				t.Errorf("there are containers or pods:\n%s", got)
			}
			if got := strings.TrimSpace(n.ctr(t, "containers", "ls", "-q")); got != "" {
				t.Errorf("there are containers:\n%s", got)
			}
		})
	}
}

// A layer that occurs several times is fetched once and counted once; each of its places is a snapshot of its own (case 17).
func TestALayerThatOccursSeveralTimes(t *testing.T) {
	for name, o := range modes() {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, o)
			a, b := random(73, 300*kib), random(74, 200*kib)
			built, img := n.push(t, "lab/twice:1", layers(a, b, a, a))
			want := built.Layers[0].Size + built.Layers[1].Size
			if plan := n.plan(t, img); plan.Fetch != want {
				t.Errorf("planned to fetch %d bytes, want %d", plan.Fetch, want)
			}
			seen := n.pull(t, img)
			if last := seen[len(seen)-1].Bytes; last != (cri.Bytes{Total: want, Fetched: want}) {
				t.Errorf("the pull ends with %+v, want %d bytes in all", last, want)
			}
			var sent []int64
			for _, l := range built.Layers[:2] {
				sent = append(sent, n.fetched(t, l))
			}
			if diff := cmp.Diff([]int64{built.Layers[0].Size, built.Layers[1].Size}, sent); diff != "" {
				t.Errorf("bytes that the registry sent of each layer:\n%s", diff)
			}
			chains := map[string]bool{}
			for _, l := range img.Layers {
				chains[l.ChainID.String()] = true
			}
			if len(chains) != 4 {
				t.Errorf("four layers have %d chain IDs", len(chains))
			}
			n.ready(t, img)
		})
	}
}

// A layer that cannot be unpacked, ever, is a permanent error that names it; other images are not touched by it, and
// nothing says that the image is ready.
func TestLayersThatCannotBeUnpacked(t *testing.T) {
	for mode, o := range modes() {
		t.Run(mode, func(t *testing.T) {
			n := newNode(t, o)
			for name, bad := range map[string]images.LayerSpec{
				"gzip, tar on it": packed(images.Gzip, ocispec.MediaTypeImageLayer),
				"no bytes":        {Blob: []byte{}},
				"no tar":          {Blob: []byte(strings.Repeat("this is no tar ", 100)), MediaType: ocispec.MediaTypeImageLayer},
			} {
				t.Run(name, func(t *testing.T) {
					built, img := n.push(t, "lab/bad:"+strings.NewReplacer(" ", "-", ",", "").Replace(name), layers(random(75, 20*kib), bad, random(76, 20*kib)))
					seen, err := tryPull(deadline(t), n.cri, img, cri.PullOptions{Interval: often})
					holdProgress(t, img, seen)
					if cri.ReasonOf(err) != cri.ReasonInvalidLayer || !cri.ReasonOf(err).Permanent() {
						t.Fatalf("%v: reason %s, want %s, a permanent one", err, cri.ReasonOf(err), cri.ReasonInvalidLayer)
					}
					for _, word := range []string{img.Reference.String(), built.Layers[1].Digest.String()} {
						if !strings.Contains(err.Error(), word) {
							t.Errorf("the error does not name %s: %v", word, err)
						}
					}
					n.notReady(t, img, cri.ErrNotPresent)
					if leases := n.ctr(t, "leases", "ls", "-q"); strings.Contains(leases, "prewarm/") {
						t.Errorf("what cannot be used is kept for the next try by a lease: %s", leases)
					}
				})
			}
			_, good := n.push(t, "lab/good:1", layers(random(75, 20*kib)))
			n.pull(t, good)
			n.ready(t, good)
		})
	}
}
