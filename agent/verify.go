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
		if !pulled(p.Progress, img) { // it was here when we came, or somebody else brought it
			p.StartedAt, p.Layers, p.Bytes = time.Time{}, nil, cri.Bytes{Total: size, Present: size}
		}
		p.Phase, p.Reason, p.Message, p.Verified = cri.PhaseReady, "", "", check
		p.Digest, p.ReadyAt = img.Digest, time.Now()
	})
	l.log.InfoContext(ctx, "image is ready", "digest", img.Digest, "check", check)
}

// pulled reports whether what is told of the last pull tells how the image, which is ready, came here.
func pulled(p cri.Progress, img cri.Image) bool {
	whole := p.Detail == cri.DetailUnavailable || p.Bytes.Missing() == 0
	return !p.StartedAt.IsZero() && p.Digest == img.Digest && whole
}
