package agent

import (
	"context"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
)

// verify proves that what was pulled is really there, whatever the runtime said when the pull ended.
func (l *life) verify(ctx context.Context, img cri.Image) (string, error) {
	l.report(ctx, func(p *cri.Progress) {
		p.Phase, p.Reason, p.Message, p.Rate, p.ETASeconds = cri.PhaseVerifying, "", "", 0, nil
	})
	return l.runtime.Verify(ctx, img)
}

// ready says that the image is ready, and on which check that rests.
func (l *life) ready(ctx context.Context, img cri.Image, check string) error {
	l.watch(img)
	size := img.Size()
	l.report(ctx, func(p *cri.Progress) { p.Phase = cri.PhaseVerifying })
	l.report(ctx, func(p *cri.Progress) {
		p.Phase, p.Reason, p.Message, p.Verified = cri.PhaseReady, "", "", check
		p.Digest, p.ReadyAt = img.Digest, time.Now()
		if p.StartedAt.IsZero() { // it was here when we came
			p.Bytes = cri.Bytes{Total: size, Present: size}
		}
	})
	l.log.InfoContext(ctx, "image is ready", "digest", img.Digest, "check", check)
	return nil
}
