package runtime_test

import (
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// An image that the kubelet has pulled costs nothing: the plan is empty, Verify is content without a pull, and a pull asks
// the registry for no blob.
func TestAnImageThatIsPresent(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	built, img := n.push(t, "lab/present:1", layers(random(31, 200*kib), random(32, 300*kib)))
	n.crictl(t, "pull", img.Reference.String())
	n.ready(t, img)
	if p := n.plan(t, img); p.Fetch != 0 || p.Unpack != 0 {
		t.Errorf("the plan is to fetch %d bytes and to unpack %d", p.Fetch, p.Unpack)
	}
	local, err := n.cri.Local(deadline(t), img.Reference)
	if err != nil || local.Digest != img.Digest || local.Config != img.Config || local.Size() != img.Size() {
		t.Errorf("Local: %+v, %v, want what was resolved: %+v", local, err, img)
	}
	n.settled(t)
	n.reg.Forget()
	seen := n.pull(t, img)
	if want := (cri.Bytes{Total: sum(built.Layers...), Present: sum(built.Layers...)}); seen[0].Bytes != want {
		t.Errorf("the pull begins with %+v, want all bytes present", seen[0].Bytes)
	}
	if blobs := n.settled(t).Filter(harness.GetBlob("")); len(blobs) > 0 {
		t.Errorf("a pull of what is present asked for blobs:\n%s", blobs)
	}
	n.ready(t, img)
}

// Layers that two images share are planned once and fetched once.
func TestImagesThatShareLayers(t *testing.T) {
	for name, o := range modes() {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, o)
			a, b, c, d := random(33, 300*kib), random(34, 200*kib), random(35, 100*kib), random(36, 150*kib)
			cpu, cpuImage := n.push(t, "lab/shared:cpu", layers(a, b, c))
			gpu, gpuImage := n.push(t, "lab/shared:gpu", layers(a, b, d))

			plan := n.plan(t, cpuImage, gpuImage)
			first, own := sum(cpu.Layers...), gpu.Layers[2].Size
			if plan.Fetch != first+own || plan.Images[0].Fetch != first || plan.Images[1].Fetch != own {
				t.Errorf("planned to fetch %d bytes: %d and %d, want %d and %d",
					plan.Fetch, plan.Images[0].Fetch, plan.Images[1].Fetch, first, own)
			}
			if got := plan.Images[1].Unpack; got != int64(float64(own)*cri.UnpackFactor) {
				t.Errorf("planned to unpack %d bytes of the second image, which are not those of its own layer alone", got)
			}

			n.pull(t, cpuImage)
			n.settled(t)
			n.reg.Forget()
			if p := n.plan(t, gpuImage); p.Fetch != own {
				t.Errorf("with the first image there it is planned to fetch %d bytes of the second, want %d", p.Fetch, own)
			}
			seen := n.pull(t, gpuImage)
			if got := seen[0].Bytes.Present; got != sum(gpu.Layers[:2]...) {
				t.Errorf("the second pull begins with %d bytes present, want those of the shared layers", got)
			}
			if shared, rest := n.fetched(t, gpu.Layers[:2]...), n.fetched(t, gpu.Layers[2]); shared != 0 || rest != own {
				t.Errorf("the second pull fetched %d bytes of shared layers and %d of its own, want 0 and %d", shared, rest, own)
			}
			n.ready(t, cpuImage)
			n.ready(t, gpuImage)
		})
	}
}

// Where a runtime keeps no blob of what is unpacked (EKS nodes), ready rests on snapshots alone.
func TestUnpackedLayersAreDiscarded(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{DiscardUnpackedLayers: true})
	built, img := n.push(t, "lab/discard:1", layers(random(37, 200*kib), random(38, 300*kib)))
	n.pull(t, img)
	n.collect(t)
	for i, l := range built.Layers {
		if n.hasBlob(t, l.Digest) {
			t.Errorf("the blob of layer %d is still there: the test shows nothing", i)
		}
	}
	n.ready(t, img)
	if p := n.plan(t, img); p.Fetch != 0 || p.Unpack != 0 {
		t.Errorf("the plan is to fetch %d bytes and to unpack %d", p.Fetch, p.Unpack)
	}
	n.settled(t)
	n.reg.Forget()
	n.pull(t, img)
	if got := n.fetched(t, built.Layers...); got != 0 {
		t.Errorf("a second pull fetched %d bytes", got)
	}
	n.ready(t, img)
}

// A pull of the same image by the kubelet at the same time costs no byte more, and both see it to the end.
func TestTheKubeletPullsTheSameImage(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	built, img := n.push(t, "lab/together:1", layers(random(39, 300*kib), random(40, 3*mib)))
	n.reg.Inject(harness.GetBlob(""), harness.Rate(3*mib))
	kubelet := make(chan error, 1)
	go func() {
		_, err := n.Crictl(deadline(t), "pull", img.Reference.String())
		kubelet <- err
	}()
	err := n.reg.Wait(deadline(t), func(l harness.Requests) bool {
		return l.Filter(harness.GetBlob(built.Layers[1].Digest)).Bytes() > 0
	})
	if err != nil {
		t.Fatal(err)
	}
	n.pull(t, img)
	if err := <-kubelet; err != nil {
		t.Errorf("the kubelet's pull: %v", err)
	}
	if got := n.fetched(t, built.Layers...); got != sum(built.Layers...) {
		t.Errorf("the registry sent %d bytes for an image of %d", got, sum(built.Layers...))
	}
	n.ready(t, img)
}

// Another image under the same tag is seen as another one, before and after it is pulled.
func TestATagThatMoves(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	a, b := random(41, 100*kib), random(42, 100*kib)
	_, old := n.push(t, "lab/moving:1", images.Spec{Layers: []images.LayerSpec{a}})
	n.pull(t, old)
	built, img := n.push(t, "lab/moving:1", images.Spec{Layers: []images.LayerSpec{a, b}})
	n.ready(t, old)
	n.notReady(t, img, cri.ErrOtherImage)
	n.pull(t, img)
	n.ready(t, img)
	n.notReady(t, old, cri.ErrOtherImage)
	if got := n.fetched(t, built.Layers...); got != built.Layers[1].Size {
		t.Errorf("the registry sent %d bytes, want the new layer's %d", got, built.Layers[1].Size)
	}
}
