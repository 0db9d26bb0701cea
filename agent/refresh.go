package agent

import (
	"context"
	"errors"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// refreshJitter is the part of the interval by which two questions of one agent vary.
const refreshJitter = 0.1

// firstRefresh is the time until the registry is asked for the first time: a part of the interval that depends on node
// and image, so that the nodes of a cluster, which boot together, ask one after the other. 0 means never.
func firstRefresh(node, image string, interval time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(node + "/" + image)) // a hash takes everything
	return time.Duration(float64(interval) * (float64(h.Sum64()) / math.MaxUint64))
}

// nextRefresh is the time between two questions.
func nextRefresh(interval time.Duration) time.Duration {
	return interval + time.Duration((rand.Float64()-0.5)*refreshJitter*float64(interval)) //nolint:gosec // spreads load, keeps no secret
}

// refreshes reports whether the registry is ever asked again: a reference with a digest means the same for ever.
func (l *life) refreshes() bool {
	return l.entry.RefreshInterval.Duration > 0 && l.entry.Reference.Digest() == ""
}

// refreshed is what a refresh came to; no image where there is nothing new.
type refreshed struct {
	image cri.Image
	check string
}

// refresh asks the registry what the reference means now and, where that is another image, pulls it beside the one that
// is ready, which stays so whatever comes of it. Only when the new one is unpacked does the reference move to it.
func (l *life) refresh(ctx context.Context, now cri.Image) refreshed {
	next, err := l.ask(ctx)
	if err == nil && next.Digest == now.Digest {
		l.refreshEnded(ctx, nil)
		return refreshed{}
	}
	var check string
	if err == nil {
		l.log.InfoContext(ctx, "reference means another image now", "from", now.Digest, "to", next.Digest)
		check, err = l.replace(ctx, next)
	}
	l.refreshEnded(ctx, err)
	if err != nil {
		return refreshed{}
	}
	return refreshed{image: next, check: check}
}

// replace pulls the new image by its digest, so that the reference keeps meaning the old one until all is there, and
// then by the reference, for which nothing is left to fetch.
func (l *life) replace(ctx context.Context, next cri.Image) (check string, err error) {
	fixed := next
	if fixed.Reference, err = next.Reference.Fixed(next.Digest); err != nil {
		return "", err
	}
	place := l.queue.enter(l.position)
	defer place.leave()
	if err := place.acquire(ctx); err != nil {
		return "", err
	}
	if h, _ := l.permit.get(); h.Reason != "" {
		return "", &cri.Error{Reason: h.Reason, Noun: l.entry.Reference.String(), Err: errors.New(h.Message)}
	}
	defer l.permit.unclaim(l)
	if err := l.guard(ctx, fixed); err != nil {
		return "", err
	}
	for i, img := range []cri.Image{fixed, next} {
		last, err := l.fetch(ctx, img, func(p cri.Progress) {
			l.report(ctx, func(s *status.ImageStatus) { s.Refresh.Next = &p })
		})
		if i == 0 || err != nil { // they are one pull
			l.recorder.PullEnded(last, cri.ReasonOf(err))
		}
		if err != nil {
			return "", err
		}
		if check, err = l.runtime.Verify(ctx, img); err != nil {
			return "", err
		}
	}
	return check, nil
}

// refreshEnded tells how a refresh ended.
func (l *life) refreshEnded(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.report(ctx, func(s *status.ImageStatus) {
		s.Refresh = status.Refresh{CheckedAt: time.Now(), Reason: cri.ReasonOf(err)}
		if err != nil {
			s.Refresh.Message = err.Error()
		}
	})
	l.recorder.Refreshed(l.entry.Name, cri.ReasonOf(err))
	if err != nil {
		l.log.WarnContext(ctx, "cannot refresh; the image that is ready stays so", "reason", cri.ReasonOf(err), "error", err)
	}
}
