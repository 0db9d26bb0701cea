package runtime_test

import (
	"math"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// The plan of a pull is what the pull does: the bytes that it fetches exactly, those that it unpacks as an estimate, on the
// file system of the snapshotter, whose free space shrinks by what was written and not by much more.
func TestPlan(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	built, img := n.push(t, "lab/plan:1", layers(random(151, 12*mib), random(152, 20*mib)))
	total := sum(built.Layers...)

	before := n.plan(t, img)
	if before.Fetch != total || before.Detail != cri.DetailLayers || len(before.Images) != 1 {
		t.Errorf("planned to fetch %d bytes, want %d: %+v", before.Fetch, total, before)
	}
	if want := float64(total) * cri.UnpackFactor; math.Abs(float64(before.Unpack)-want) > 2 {
		t.Errorf("planned to unpack %d bytes, want %.0f", before.Unpack, want)
	}
	for i, l := range before.Images[0].Layers {
		if l.State != cri.LayerWaiting || l.Present != 0 || l.Digest != built.Layers[i].Digest {
			t.Errorf("layer %d before the pull: %+v", i, l)
		}
	}
	if got := n.settled(t); len(got) > 0 {
		t.Errorf("to plan asked the registry:\n%s", got)
	}

	n.pull(t, img)
	after := n.plan(t, img)
	if after.Fetch != 0 || after.Unpack != 0 {
		t.Errorf("after the pull it is planned to fetch %d bytes and to unpack %d", after.Fetch, after.Unpack)
	}
	for i, l := range after.Images[0].Layers {
		if l.State != cri.LayerDone || l.Present != l.Size {
			t.Errorf("layer %d after the pull: %+v", i, l)
		}
	}
	holdDisk(t, n, before.Disk, after.Disk, total)
}

// holdDisk wants the file system to be that of the snapshots. Other programs write there too, so the free space only has
// to be plausible: it has not shrunk by 1 GiB, nor grown by it, where tens of MiB were written.
func holdDisk(t *testing.T, n *node, before, after *cri.Disk, written int64) {
	t.Helper()
	if before == nil || after == nil {
		t.Fatalf("no file system before, %v, or after, %v", before, after)
	}
	if !strings.HasPrefix(before.Path, n.Root()) || !strings.Contains(before.Path, n.Snapshotter) {
		t.Errorf("the file system is at %s, want the folder of snapshotter %s in %s", before.Path, n.Snapshotter, n.Root())
	}
	for _, d := range []*cri.Disk{before, after} {
		if d.Total <= 0 || d.Free <= 0 || d.Free >= d.Total || d.Total != before.Total || d.Path != before.Path {
			t.Errorf("disk %+v, at first %+v", d, before)
		}
	}
	if shrunk := before.Free - after.Free; shrunk > 1<<30 || shrunk < -(1<<30) {
		t.Errorf("the free space went from %d to %d bytes where some %d were written", before.Free, after.Free, 2*written)
	}
}

// Of an image whose lower layers are there, only the upper one is in the plan; a blob that is stored but not unpacked is
// only unpacked.
func TestPlanOfHalfAnImage(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	a, b, c := random(153, 200*kib), random(154, 100*kib), random(155, 300*kib)
	_, lower := n.push(t, "lab/lower:1", layers(a, b))
	built, img := n.push(t, "lab/upper:1", images.Spec{Layers: []images.LayerSpec{a, b, c}})
	n.pull(t, lower)
	n.removeTop(t, lower)
	plan := n.plan(t, img)
	if plan.Fetch != built.Layers[2].Size {
		t.Errorf("planned to fetch %d bytes, want those of the third layer, %d", plan.Fetch, built.Layers[2].Size)
	}
	want := []cri.LayerState{cri.LayerDone, cri.LayerFetched, cri.LayerWaiting}
	for i, l := range plan.Images[0].Layers {
		if l.State != want[i] {
			t.Errorf("layer %d is %s, want %s", i, l.State, want[i])
		}
	}
	if least := int64(float64(built.Layers[1].Size+built.Layers[2].Size) * cri.UnpackFactor); plan.Unpack < least-2 || plan.Unpack > least+2 {
		t.Errorf("planned to unpack %d bytes, want those of two layers, about %d", plan.Unpack, least)
	}
}
