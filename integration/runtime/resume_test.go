package runtime_test

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// resume is a pull that is broken off in the middle of its third layer, and what came before it (case 38).
type resume struct {
	*node

	built *images.Image
	img   cri.Image
	o     cri.PullOptions
	// heal makes the third layer come as fast as the others.
	heal func()
}

// prepareResume pushes an image of three layers, the third one slow: it takes two seconds.
func prepareResume(t *testing.T, o harness.ContainerdOptions) *resume {
	t.Helper()
	n := newNode(t, o)
	built, img := n.push(t, "lab/resume:1", layers(random(91, 300*kib), random(92, 2*mib), random(93, 6*mib)))
	return &resume{
		node: n, built: built, img: img, o: cri.PullOptions{Name: "resume", Interval: often},
		heal: n.reg.Inject(harness.GetBlob(built.Layers[2].Digest), harness.Rate(3*mib)),
	}
}

// breakOff pulls and calls stop once the lower layers are unpacked and the third is at 2 MiB or more. It gives what the
// pull showed last and the error with which it ended.
func (r *resume) breakOff(ctx context.Context, t *testing.T, stop func()) (last cri.Progress, err error) {
	t.Helper()
	stopped := false
	for p, e := range r.cri.Pull(ctx, r.img, r.o) {
		last, err = p, e
		if l := p.Layers; !stopped && l[1].State == cri.LayerDone && l[2].Fetched >= 2*mib {
			stopped = true
			stop()
		}
	}
	if err == nil || !stopped || last.Layers[2].Fetched == last.Layers[2].Size {
		t.Fatalf("the pull was to be broken off in its third layer, and ended with %v, %+v", err, last.Layers)
	}
	r.settled(t)
	return last, err
}

// ingest tells whether containerd keeps the half of the third layer, by ctr's word.
func (r *resume) ingest(t *testing.T) bool {
	t.Helper()
	return strings.Contains(r.ctr(t, "content", "active"), r.built.Layers[2].Digest.String())
}

// goOn pulls again, at full speed, and wants nothing to be fetched that was there: no byte of the lower layers, and of the
// third what was missing, by one request for the rest.
func (r *resume) goOn(t *testing.T, before cri.Progress) {
	t.Helper()
	r.heal()
	first := r.reg.Requests()
	r.reg.Forget()
	seen, err := tryPull(deadline(t), r.cri, r.img, r.o)
	if err != nil {
		t.Fatal(err)
	}
	holdProgress(t, r.img, seen)
	holdEnd(t, seen[len(seen)-1])
	r.ready(t, r.img)

	third := r.built.Layers[2]
	if got := r.fetched(t, r.built.Layers[:2]...); got != 0 {
		t.Errorf("%d bytes of complete layers were fetched again", got)
	}
	gets := r.settled(t).Filter(harness.GetBlob(third.Digest))
	if len(gets) != 1 || !strings.HasPrefix(gets[0].Range, "bytes=") {
		t.Fatalf("the third layer was to be fetched by one request for a range:\n%s", gets)
	}
	from, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(gets[0].Range, "bytes="), "-"), 10, 64)
	if err != nil || from < before.Layers[2].Fetched || gets[0].Bytes != third.Size-from {
		t.Errorf("range %q, %d bytes, want all from %d or more: %v", gets[0].Range, gets[0].Bytes, before.Layers[2].Fetched, err)
	}
	if want := sum(r.built.Layers[:2]...) + from; seen[0].Bytes.Present != want {
		t.Errorf("the second pull began with %d bytes present, want %d", seen[0].Bytes.Present, want)
	}
	if last := seen[len(seen)-1].Bytes; last.Fetched != third.Size-from {
		t.Errorf("the second pull says that it fetched %d bytes, want %d", last.Fetched, third.Size-from)
	}
	blobs := first.Filter(harness.GetBlob("")).Bytes() + r.settled(t).Filter(harness.GetBlob("")).Bytes()
	if limit := r.built.Size() + mib; blobs > limit {
		t.Errorf("both pulls together fetched %d bytes of blobs, want no more than the image and 1 MiB, %d", blobs, limit)
	}
	t.Logf("%d bytes more than the image has", blobs-sum(r.built.Layers...)-r.built.Config.Size)
}

// A pull that is cancelled, by the context or by the reader that stops, goes on where it was, also after containerd has
// collected garbage.
func TestACancelledPullGoesOn(t *testing.T) {
	for name, o := range modes() {
		t.Run(name, func(t *testing.T) {
			r := prepareResume(t, o)
			ctx, cancel := context.WithCancel(deadline(t))
			defer cancel()
			last, err := r.breakOff(ctx, t, cancel)
			if cri.ReasonOf(err) != cri.ReasonCanceled || cri.ReasonOf(err).Permanent() {
				t.Errorf("%v: reason %s, want %s", err, cri.ReasonOf(err), cri.ReasonCanceled)
			}
			r.notReady(t, r.img, cri.ErrNotPresent)
			r.collect(t)
			if !r.ingest(t) {
				t.Errorf("the half layer is gone:\n%s", r.ctr(t, "content", "active"))
			}
			r.goOn(t, last)
		})
	}
}

// Who stops ranging cancels the pull: when the loop has ended, containerd fetches nothing more.
func TestToStopRangingCancels(t *testing.T) {
	r := prepareResume(t, harness.ContainerdOptions{})
	var last cri.Progress
	for p, err := range r.cri.Pull(deadline(t), r.img, r.o) {
		if last = p; err != nil {
			t.Fatal(err)
		}
		if l := p.Layers; l[1].State == cri.LayerDone && l[2].Fetched >= 2*mib {
			break
		}
	}
	r.settled(t) // the registry sees the connection end
	if got := r.reg.Served(r.built.Layers[2].Digest); got >= r.built.Layers[2].Size {
		t.Errorf("all %d bytes of the third layer were sent after all", got)
	}
	r.collect(t)
	r.goOn(t, last)
}

// A new process, which knows nothing of the first, goes on with what the first has fetched: the name is enough.
func TestAnotherProcessGoesOn(t *testing.T) {
	r := prepareResume(t, harness.ContainerdOptions{})
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	last, _ := r.breakOff(ctx, t, cancel)
	r.collect(t)
	r.cri = connect(t, cri.Options{RuntimeEndpoint: r.Endpoint()})
	if p := r.plan(t, r.img); p.Fetch > r.img.Size()-last.Bytes.Fetched {
		t.Errorf("planned to fetch %d bytes of %d, of which %d are there", p.Fetch, r.img.Size(), last.Bytes.Fetched)
	}
	again, err := r.cri.Resolve(deadline(t), r.img.Reference, nil)
	if diff := cmp.Diff(r.img, again, cmp.Exporter(func(reflect.Type) bool { return true })); err != nil || diff != "" {
		t.Errorf("resolved again: %v, another image:\n%s", err, diff)
	}
	r.goOn(t, last)
}

// containerd is killed in the middle of a pull: the error says that the runtime is away, and once it is back the pull goes
// on, over the same connection.
func TestContainerdIsKilledInThePull(t *testing.T) {
	for name, o := range modes() {
		t.Run(name, func(t *testing.T) {
			r := prepareResume(t, o)
			last, err := r.breakOff(deadline(t), t, r.Kill)
			if cri.ReasonOf(err) != cri.ReasonRuntimeUnavailable || cri.ReasonOf(err).Permanent() {
				t.Errorf("%v: reason %s, want %s", err, cri.ReasonOf(err), cri.ReasonRuntimeUnavailable)
			}
			if _, err := r.cri.Verify(deadline(t), r.img); cri.ReasonOf(err) != cri.ReasonRuntimeUnavailable {
				t.Errorf("Verify while it is away: %v, want reason %s", err, cri.ReasonRuntimeUnavailable)
			}
			if err := r.Restart(deadline(t)); err != nil {
				t.Fatal(err)
			}
			r.back(t)
			r.goOn(t, last)
		})
	}
}

// back waits until containerd answers over the connection that it has left.
func (n *node) back(t *testing.T) {
	t.Helper()
	err := harness.Poll(deadline(t), func(ctx context.Context) error {
		_, err := n.cri.Local(ctx, parse(t, n.reg.Ref("lab/nothing:1")))
		if cri.ReasonOf(err) != cri.ReasonNotPresent {
			return fmt.Errorf("not back yet: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
