package agent

import (
	"context"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// verify proves that what was pulled is really there, whatever the runtime said when the pull ended.
func (l *life) verify(ctx context.Context, img cri.Image) (string, error) {
	l.report(ctx, func(p *status.ImageStatus) {
		p.Phase, p.Reason, p.Message, p.Rate, p.ETASeconds = cri.PhaseVerifying, "", "", 0, nil
	})
	return l.runtime.Verify(ctx, img)
}

// ready pins the image and says that it is ready, and on which check that rests. An image that cannot be pinned is ready all
// the same; that is told.
func (l *life) ready(ctx context.Context, img cri.Image, check string) {
	l.watch(img)
	l.pin(ctx, img)
	size := img.Size()
	l.report(ctx, func(p *status.ImageStatus) { p.Phase = cri.PhaseVerifying })
	l.report(ctx, func(p *status.ImageStatus) {
		p.Phase, p.Reason, p.Message, p.Verified = cri.PhaseReady, "", "", check
		p.Digest, p.ReadyAt = img.Digest, time.Now()
		if p.StartedAt.IsZero() { // it was here when we came
			p.Bytes = cri.Bytes{Total: size, Present: size}
		}
	})
	l.log.InfoContext(ctx, "image is ready", "digest", img.Digest, "check", check)
}
