package runtime_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

const pinLabel = "io.cri-containerd.pinned=pinned"

// pinned is what the kubelet sees: CRI's list of images, read by crictl.
func (n *node) pinned(t *testing.T, id string) bool {
	t.Helper()
	var list struct {
		Images []struct {
			ID     string
			Pinned bool
		}
	}
	if err := json.Unmarshal([]byte(n.crictl(t, "images", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, i := range list.Images {
		if i.ID == id {
			return i.Pinned
		}
	}
	return false
}

// awaitPinned waits until CRI has heard of a pin, or that it is gone.
func (n *node) awaitPinned(t *testing.T, img cri.Image, want bool) {
	t.Helper()
	eventually(t, "CRI hears of the pin", func() bool { return n.pinned(t, img.Config.String()) == want })
	if got, err := n.cri.Pinned(deadline(t), img); err != nil || got != want {
		t.Errorf("Pinned: %v, %v, want %v", got, err, want)
	}
}

func (n *node) pin(t *testing.T, img cri.Image, owner string, want bool) {
	t.Helper()
	if wrote, err := n.cri.Pin(deadline(t), img, owner); err != nil || wrote != want {
		t.Fatalf("Pin: wrote %v, %v, want %v", wrote, err, want)
	}
}

func (n *node) pins(t *testing.T) []cri.Pin {
	t.Helper()
	pins, err := n.cri.Pins(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(pins, func(a, b cri.Pin) int { return len(a.Name) - len(b.Name) })
	return pins
}

// Case 34: a pin is seen by the kubelet and survives another pull of the same reference, which a pin of the tag would not.
func TestAPinSurvivesAnotherPull(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, img := n.push(t, "lab/pin:1", layers(random(101, 100*kib)))
	n.pull(t, img)
	n.pin(t, img, "cpu", true)
	n.awaitPinned(t, img, true)
	n.pin(t, img, "cpu", false)

	n.crictl(t, "pull", img.Reference.String())
	n.awaitPinned(t, img, true)
	n.pin(t, img, "cpu", false)
	if err := n.Restart(deadline(t)); err != nil {
		t.Fatal(err)
	}
	n.awaitPinned(t, img, true)

	byDigest := img.Reference.Repository() + "@" + img.Digest.String()
	want := []cri.Pin{
		{Name: img.Config.String(), Owner: "cpu", Target: img.Digest}, {Name: byDigest, Owner: "cpu", Target: img.Digest},
	}
	slices.SortFunc(want, func(a, b cri.Pin) int { return len(a.Name) - len(b.Name) })
	if d := cmp.Diff(want, n.pins(t)); d != "" {
		t.Errorf("pins:\n%s", d)
	}
	if err := n.cri.Unpin(deadline(t), n.pins(t)...); err != nil {
		t.Fatal(err)
	}
	n.awaitPinned(t, img, false)
	if left := n.pins(t); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	n.ready(t, img)
}

// What somebody else has pinned stays his: we neither take it over nor let go of it.
func TestPinsOfOthersAreNotTouched(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, img := n.push(t, "lab/pin:1", layers(random(102, 100*kib)))
	n.pull(t, img)
	names := []string{img.Config.String(), img.Reference.Repository() + "@" + img.Digest.String()}
	for _, name := range names {
		n.ctr(t, "images", "label", name, pinLabel)
	}
	n.awaitPinned(t, img, true)
	n.pin(t, img, "cpu", false)
	if pins := n.pins(t); len(pins) != 0 {
		t.Errorf("taken over: %v", pins)
	}
	foreign := []cri.Pin{{Name: names[0], Owner: "cpu"}, {Name: names[1], Owner: "cpu"}}
	if err := n.cri.Unpin(deadline(t), foreign...); err != nil {
		t.Fatal(err)
	}
	n.awaitPinned(t, img, true)
}

// When a tag moves, the old image stays pinned until we let go of it, and only then can it be collected.
func TestTheOldPinOfAMovedTag(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, old := n.push(t, "lab/pin:1", layers(random(103, 100*kib)))
	n.pull(t, old)
	n.pin(t, old, "cpu", true)
	_, next := n.push(t, "lab/pin:1", layers(random(104, 100*kib)))
	n.pull(t, next)
	n.pin(t, next, "cpu", true)
	n.awaitPinned(t, next, true)
	if !n.pinned(t, old.Config.String()) {
		t.Error("the old image is not pinned any more before we let go of it")
	}
	left := cri.PinsOf(n.pins(t), "cpu", next)
	if len(left) != 2 {
		t.Fatalf("pins of the old image: %v, want 2", left)
	}
	if others := cri.PinsOf(n.pins(t), "gpu", next); len(others) != 0 {
		t.Errorf("pins of another entry: %v", others)
	}
	if err := n.cri.Unpin(deadline(t), left...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old image is free", func() bool { return !n.pinned(t, old.Config.String()) })
	n.awaitPinned(t, next, true)
	n.ready(t, next)
}

// Case 36: a pin is advice. A removal takes a pinned image all the same; then there is nothing to pin.
func TestAPinnedImageCanBeRemoved(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, img := n.push(t, "lab/pin:1", layers(random(105, 100*kib)))
	n.pull(t, img)
	n.pin(t, img, "cpu", true)
	n.awaitPinned(t, img, true)
	n.crictl(t, "rmi", img.Reference.String())
	if _, err := n.cri.Pin(deadline(t), img, "cpu"); cri.ReasonOf(err) != cri.ReasonNotPresent {
		t.Errorf("Pin of a removed image: %v, want %s", err, cri.ReasonNotPresent)
	}
	if err := n.cri.Unpin(deadline(t), cri.Pin{Name: img.Config.String(), Owner: "cpu"}); err != nil {
		t.Errorf("Unpin of a removed image: %v", err)
	}
}

// Leases of images that nobody wants go; those of images that are wanted, of pulls by hand and of others stay.
func TestLeasesThatNobodyNeedsAreDropped(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	n.ctr(t, "leases", "create", "--id", "other/lease", "--expires", "1h", "owner=somebody")
	for _, name := range []string{"prewarm/gone", "prewarm/kept", "prewarm/reference-0123456789ab"} {
		n.ctr(t, "leases", "create", "--id", name, "--expires", "1h", "prewarm.dev/owner="+strings.TrimPrefix(name, "prewarm/"))
	}
	dropped, err := n.cri.DropLeases(deadline(t), func(image string) bool { return image == "kept" || image == "" })
	if d := cmp.Diff([]string{"gone"}, dropped); err != nil || d != "" {
		t.Errorf("dropped, %v:\n%s", err, d)
	}
	left := n.leases(t)
	if len(left) != 3 || left["prewarm/gone"] != "" {
		t.Errorf("left: %v", left)
	}
	if dropped, err = n.cri.DropLeases(deadline(t), func(string) bool { return false }); err != nil || len(dropped) != 2 {
		t.Errorf("all: dropped %v, %v", dropped, err)
	}
	if left = n.leases(t); len(left) != 1 || left["other/lease"] == "" {
		t.Errorf("left: %v, want the other's alone", left)
	}
}
