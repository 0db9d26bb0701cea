package runtime_test

import (
	"errors"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// However an image is named, it is found again under that name once it is pulled (case 1: containerd forgets the tag
// where there is a digest too, also a tag that never existed).
func TestReferences(t *testing.T) {
	platform, arm := harness.Image(t, layers(random(51, 100*kib))), harness.Image(t, foreign("arm64", random(52, 1*kib)))
	index, err := images.NewIndex(false, images.Entry{Image: arm}, images.Entry{Image: platform})
	if err != nil {
		t.Fatal(err)
	}
	for name, suffix := range map[string]string{
		"tag":                 "lab/c:1.0",
		"digest":              "lab/c@" + index.Descriptor.Digest.String(),
		"tag and digest":      "lab/c:1.0@" + index.Descriptor.Digest.String(),
		"lost tag and digest": "lab/c:nosuch@" + index.Descriptor.Digest.String(),
		"manifest's digest":   "lab/c:1.0@" + platform.Descriptor.Digest.String(),
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, harness.ContainerdOptions{})
			if err := index.Push(n.reg, "lab/c", "1.0"); err != nil {
				t.Fatal(err)
			}
			img := n.resolve(t, n.reg.Ref(suffix))
			if want := parse(t, n.reg.Ref(suffix)).Digest(); want != "" && img.Digest != want {
				t.Errorf("resolved to %s, and the reference says %s", img.Digest, want)
			}
			if img.Config != platform.Config.Digest {
				t.Errorf("resolved to configuration %s, want that of this platform, %s", img.Config, platform.Config.Digest)
			}
			n.notReady(t, img, cri.ErrNotPresent)
			n.pull(t, img)
			n.ready(t, img)
			local, err := n.cri.Local(deadline(t), img.Reference)
			if err != nil || local.Digest != img.Digest || local.Config != img.Config {
				t.Errorf("Local: %+v, %v, want %s", local, err, img.Digest)
			}
			n.crictl(t, "rmi", img.Config.String())
			n.notReady(t, img, cri.ErrNotPresent)
		})
	}
}

// A name that is in the runtime only by another tag is not present: a pod that names it would be pulled.
func TestAnotherTagOfTheSameImage(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, img := n.push(t, "lab/tags:1", layers(random(53, 50*kib)))
	_, other := n.push(t, "lab/tags:2", layers(random(53, 50*kib)))
	n.pull(t, img)
	n.notReady(t, other, cri.ErrNotPresent)
	if _, err := n.cri.Local(deadline(t), other.Reference); !errors.Is(err, cri.ErrNotPresent) {
		t.Errorf("Local of the other tag: %v, want %s", err, cri.ReasonNotPresent)
	}
	n.settled(t)
	n.reg.Forget()
	n.pull(t, other)
	n.ready(t, other)
	if blobs := n.settled(t).Filter(harness.GetBlob("")); len(blobs) > 0 {
		t.Errorf("all blobs were there, and some were fetched again:\n%s", blobs)
	}
}
