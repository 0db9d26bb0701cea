package cri

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"time"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// lastLook bounds the look at the end of a pull, which is also taken when we are told to stop: a runtime that hangs must not
// keep us from that. A look takes about a millisecond.
const lastLook = time.Second

// Pull fetches and unpacks what is missing of an image. The sequence yields progress as it changes, at most once per
// interval, and the last one when the pull has ended; an error comes last, with the progress that was reached. To stop
// ranging, or to cancel ctx, cancels the pull. What has been fetched is kept for the next try.
func (r *Runtime) Pull(ctx context.Context, img Image, o PullOptions) iter.Seq2[Progress, error] {
	o.Name = firstSet(o.Name, img.Reference.String())
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	return func(yield func(Progress, error) bool) {
		ctx, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		if r.native == nil {
			r.pullUnseen(ctx, img, o, yield)
			return
		}
		r.pullSeen(ctx, stop, img, o, yield)
	}
}

// pullSeen pulls from containerd: the pull itself goes through CRI, as the kubelet's does, and beside it the native API
// is asked where every layer stands.
func (r *Runtime) pullSeen(ctx context.Context, stop context.CancelCauseFunc, img Image, o PullOptions, yield func(Progress, error) bool) {
	seen, err := r.look(ctx, img, nil, false)
	if err != nil {
		yield(Progress{Image: o.Name, Reference: img.Reference.String(), Phase: PhasePulling}, err)
		return
	}
	t := newTracker(img, o.Name, seen, time.Now())
	lease, err := r.hold(ctx, leaseName(o.Name))
	if err != nil || !yield(t.progress, nil) {
		if err != nil {
			yield(t.progress, err)
		}
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- r.request(leases.WithLease(ctx, lease.ID), img, o.Credential) }()
	life := newLiveliness(o.StallTimeout, time.Now())
	tick := time.NewTicker(o.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			changed := false
			if next, err := r.look(ctx, img, seen, true); err != nil { // the pull itself tells what is wrong with the runtime
				r.log.DebugContext(ctx, "no progress", "image", o.Name, "error", err)
			} else {
				seen, changed = next, t.observe(next, time.Now())
			}
			if life.watches() && !life.alive(t.progress, r.free(ctx, t.progress), time.Now()) {
				stop(life.stalled(t.progress)) // the request ends with this error
			}
			if changed && !yield(t.progress, nil) {
				stop(nil)
				// When we return nothing of ours runs any more.
				r.log.DebugContext(ctx, "pull given up", "image", o.Name, "error", <-ended)
				return
			}
		case err := <-ended:
			r.finish(ctx, img, t, seen, lease, err, yield)
			return
		}
	}
}

// finish takes a last look and gives the lease up, unless there is something to keep for another try.
func (r *Runtime) finish(ctx context.Context, img Image, t *tracker, seen []sight, lease leases.Lease, err error, yield func(Progress, error) bool) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	if next, lookErr := r.look(last, img, seen, err == nil); lookErr == nil {
		t.observe(next, time.Now())
	}
	if ReasonOf(err) == ReasonDigestMismatch {
		r.dropSpoiled(ctx, err)
	}
	if err == nil || useless(ReasonOf(err)) {
		if rerr := r.release(context.WithoutCancel(ctx), lease, err != nil && ctx.Err() == nil); rerr != nil {
			r.log.WarnContext(ctx, "lease stays until it expires", "lease", lease.ID, "error", rerr)
		}
	}
	yield(t.progress, err)
}

// useless reports whether a pull that failed for this reason leaves nothing that another try could use; or, of a full
// disk, nothing that is worth its room.
func useless(r Reason) bool {
	switch r {
	case ReasonInvalidImage, ReasonInvalidLayer, ReasonNoMatchingPlatform, ReasonManifestMissing, ReasonImageNotFound, ReasonDiskFull:
		return true
	default:
		return false
	}
}

// spoiledRef finds the name of a download in containerd's words about one that could not be committed (core/content,
// Copy; core/remotes, Fetch).
var spoiledRef = regexp.MustCompile(`failed commit on ref \\?"([a-z]+-sha256:[0-9a-f]{64})`)

// dropSpoiled throws a complete download away whose digest is wrong. Our lease would keep it, and containerd, which finds
// nothing missing, would ask the registry no more and fail on the same bytes again and again.
func (r *Runtime) dropSpoiled(ctx context.Context, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
	defer cancel()
	for _, m := range spoiledRef.FindAllStringSubmatch(err.Error(), -1) {
		if err := r.native.ContentStore().Abort(inNamespace(ctx), m[1]); err != nil && !errdefs.IsNotFound(err) {
			r.log.WarnContext(ctx, "a spoiled download stays until its lease expires", "download", m[1], "error", err)
		}
	}
}

// pullUnseen pulls from a runtime that tells nothing while it pulls.
func (r *Runtime) pullUnseen(ctx context.Context, img Image, o PullOptions, yield func(Progress, error) bool) {
	p := Progress{
		Image: o.Name, Reference: img.Reference.String(), Digest: img.Digest, Phase: PhasePulling,
		Detail: DetailUnavailable, StartedAt: time.Now(), Bytes: Bytes{Total: img.Size()},
	}
	if yield(p, nil) {
		yield(p, r.request(ctx, img, o.Credential))
	}
}

// request is the CRI call; the runtime returns when the image is unpacked.
func (r *Runtime) request(ctx context.Context, img Image, c *Credential) error {
	resp, err := r.images.PullImage(ctx, &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: img.Reference.Canonical()}, Auth: c.auth(img.Reference),
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return r.runtimeError(img.Reference.String(), err)
	}
	if id := digest.Digest(resp.GetImageRef()); r.native != nil && id != img.Config {
		return &Error{
			Reason: ReasonOtherImage, Noun: img.Reference.String(), Remedy: "the next try resolves it again",
			Err: fmt.Errorf("the tag moved while it was pulled: got image %s, resolved was %s", id, img.Config),
		}
	}
	return nil
}

// leaseName makes a name for a lease: names of the configuration are usable as they are, references are not.
func leaseName(name string) string {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return byReference + digest.FromString(name).Encoded()[:12]
		}
	}
	return name
}
