package agent

import (
	"context"

	"github.com/prewarm-dev/prewarm/cri"
)

// pull waits for its turn and lets the runtime fetch and unpack what is missing.
func (l *life) pull(ctx context.Context, img cri.Image) error {
	l.report(ctx, func(p *cri.Progress) {
		p.Phase, p.Reason, p.Message = cri.PhaseWaiting, cri.ReasonQueued, "waits for its turn to be pulled"
	})
	release, err := l.queue.acquire(ctx, l.position)
	if err != nil {
		return err
	}
	defer release()
	l.watch(img)
	l.log.InfoContext(ctx, "pull started", "digest", img.Digest, "bytes", img.Size(), "layers", len(img.Layers))
	var last cri.Progress
	for p, err := range l.runtime.Pull(ctx, img, cri.PullOptions{Name: l.entry.Name, Engine: l.options.Engine}) {
		last = p
		l.report(ctx, func(now *cri.Progress) { *now = p })
		if err != nil {
			l.recorder.PullEnded(last, cri.ReasonOf(err))
			return err
		}
	}
	l.recorder.PullEnded(last, "")
	l.log.InfoContext(ctx, "pulled", "digest", img.Digest, "fetched", last.Bytes.Fetched, "present", last.Bytes.Present)
	return nil
}
