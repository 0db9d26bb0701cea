package runtime_test

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// foreign is an image for Linux on another architecture, or for a whole other platform such as windows/amd64.
func foreign(platform string, l ...images.LayerSpec) images.Spec {
	os, arch, ok := strings.Cut(platform, "/")
	if !ok {
		os, arch = "linux", platform
	}
	return images.Spec{Layers: l, Platform: ocispec.Platform{OS: os, Architecture: arch}}
}

// otherArch is a platform that this machine's is not.
func otherArch() string {
	if runtime.GOARCH == "arm64" {
		return "s390x"
	}
	return "arm64"
}

// pushIndex pushes an index and gives the reference.
func (n *node) pushIndex(t *testing.T, name string, docker bool, entries ...images.Entry) (*images.Index, string) {
	t.Helper()
	index, err := images.NewIndex(docker, entries...)
	if err != nil {
		t.Fatal(err)
	}
	repository, tag, _ := strings.Cut(name, ":")
	if err := index.Push(n.reg, repository, tag); err != nil {
		t.Fatal(err)
	}
	return index, n.reg.Ref(name)
}

// Of an index with several platforms, an attestation that is nowhere (case 14) and one for Windows, only the node's own
// image counts, and nothing else is asked for.
func TestIndex(t *testing.T) {
	own := harness.Image(t, layers(random(61, 100*kib), random(62, 200*kib)))
	others := []images.Entry{
		{Image: harness.Image(t, foreign("unknown/unknown", random(63, kib))), Attestation: true, Missing: true},
		{Image: harness.Image(t, foreign(otherArch(), random(64, kib)))},
		{Image: harness.Image(t, foreign("windows/amd64", random(65, kib))), Missing: true},
	}
	docker := harness.Image(t, images.Spec{Docker: true, Layers: []images.LayerSpec{random(61, 100*kib), random(62, 200*kib)}})
	nested, err := images.NewIndex(false, append(slices.Clip(others), images.Entry{Image: own})...)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		docker  bool
		entries []images.Entry
	}{
		"OCI":    {entries: append(slices.Clip(others), images.Entry{Image: own})},
		"Docker": {docker: true, entries: append(slices.Clip(others), images.Entry{Image: docker})},
		// Beside an index, containerd 2.4 takes a manifest of another platform for the one to count (core/images,
		// LimitManifests), so the outer index has nothing else.
		"nested": {entries: []images.Entry{{Index: nested}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, harness.ContainerdOptions{})
			index, ref := n.pushIndex(t, "lab/index:1", tc.docker, tc.entries...)
			img, err := n.cri.Resolve(deadline(t), parse(t, ref), nil)
			if err != nil {
				t.Fatal(err)
			}
			if img.Digest != index.Descriptor.Digest || img.Platform != "linux/"+runtime.GOARCH || img.Size() != sum(own.Layers...) {
				t.Errorf("resolved %s, %s, %d bytes, want index %s, this platform, %d bytes",
					img.Digest, img.Platform, img.Size(), index.Descriptor.Digest, sum(own.Layers...))
			}
			n.pull(t, img)
			n.ready(t, img)
			list := n.settled(t)
			for _, o := range others {
				for _, r := range list {
					if strings.Contains(r.Path, o.Image.Descriptor.Digest.String()) || strings.Contains(r.Path, o.Image.Config.Digest.String()) {
						t.Errorf("the registry was asked for another platform's %s %s", r.Method, r.Path)
					}
				}
			}
		})
	}
}

// What is wrong with an index is said once and for all: the reason is permanent, and the error names what is missing.
func TestBrokenIndex(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	own, other := harness.Image(t, layers(random(66, 50*kib))), harness.Image(t, foreign(otherArch(), random(67, kib)))
	for name, tc := range map[string]struct {
		entries []images.Entry
		reason  cri.Reason
		says    string
	}{
		"own child is gone": {
			[]images.Entry{{Image: other}, {Image: own, Missing: true}}, cri.ReasonManifestMissing, own.Descriptor.Digest.String(),
		},
		"no child for us":     {[]images.Entry{{Image: other}}, cri.ReasonNoMatchingPlatform, "linux/" + runtime.GOARCH},
		"an attestation only": {[]images.Entry{{Image: other, Attestation: true, Missing: true}}, cri.ReasonNoMatchingPlatform, "linux/" + runtime.GOARCH},
	} {
		t.Run(name, func(t *testing.T) {
			index, ref := n.pushIndex(t, "lab/broken:"+strings.ReplaceAll(name, " ", "-"), false, tc.entries...)
			_, err := n.cri.Resolve(deadline(t), parse(t, ref), nil)
			if cri.ReasonOf(err) != tc.reason || !cri.ReasonOf(err).Permanent() {
				t.Fatalf("%v: reason %s, want %s, a permanent one", err, cri.ReasonOf(err), tc.reason)
			}
			for _, word := range []string{ref, index.Descriptor.Digest.String(), tc.says} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("the error does not say %s: %v", word, err)
				}
			}
		})
	}
}

// When the child that an index names goes away after it was pulled, what is on the node stays ready, by its digest and by
// its tag.
func TestTheChildOfAnIndexGoesAway(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	own := harness.Image(t, layers(random(68, 50*kib)))
	_, ref := n.pushIndex(t, "lab/gone:1", false, images.Entry{Image: own})
	img := n.resolve(t, ref)
	n.pull(t, img)
	if err := n.reg.DeleteManifest("lab/gone", own.Descriptor.Digest.String()); err != nil {
		t.Fatal(err)
	}
	n.settled(t)
	n.reg.Forget()
	again, err := n.cri.Resolve(deadline(t), img.Reference, nil)
	if err != nil || again.Digest != img.Digest || again.Config != img.Config {
		t.Errorf("resolved again: %+v, %v, want the same from what the node has", again, err)
	}
	if gets := n.settled(t).Filter(harness.Match{Method: http.MethodGet}); len(gets) > 0 {
		t.Errorf("what the node has was asked for again:\n%s", gets)
	}
	n.ready(t, img)
}
