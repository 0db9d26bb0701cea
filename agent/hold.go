package agent

import (
	"context"
	"errors"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
)

const (
	// verifyInterval is the time between two looks at a ready image that no event asked for: a stream of events can
	// break without a word.
	verifyInterval = 5 * time.Minute
	// verifyIntervalBlind is the same for a runtime without a stream of events.
	verifyIntervalBlind = 15 * time.Second
	// askAgain is the time until the runtime is asked again after it could not be asked.
	askAgain = time.Second
)

// hold watches a ready image; it returns when the image is lost, with the error that says how, or when ctx ends. A
// runtime that cannot be asked proves nothing: the image stays ready until it can.
func (l *life) hold(ctx context.Context, img cri.Image) error {
	interval := verifyInterval
	if l.runtime.Info().Detail == cri.DetailUnavailable {
		interval = verifyIntervalBlind
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		case <-l.poked:
		}
		_, err := l.runtime.Verify(ctx, img)
		switch {
		case err == nil:
			timer.Reset(interval)
		case errors.Is(err, cri.ErrOtherImage) && l.moved(ctx, &img):
			timer.Reset(interval)
		case canAsk(err):
			l.lost(ctx, err)
			return err
		case ctx.Err() == nil:
			l.log.WarnContext(ctx, "cannot verify", "error", err)
			timer.Reset(askAgain)
		}
	}
}

// moved follows a reference that somebody else has moved to another image, when that one is ready too: the node is ready
// all along.
func (l *life) moved(ctx context.Context, img *cri.Image) bool {
	next, check, err := l.look(ctx)
	if err != nil {
		return false
	}
	l.watch(next)
	l.report(ctx, func(p *cri.Progress) { p.Digest, p.Verified = next.Digest, check })
	l.log.InfoContext(ctx, "reference moved to an image that is ready", "from", img.Digest, "to", next.Digest)
	*img = next
	return true
}

// lost says that the image is not ready any more, before anything is done about it.
func (l *life) lost(ctx context.Context, err error) {
	reason := cri.ReasonOf(err)
	l.report(ctx, func(p *cri.Progress) {
		p.Phase, p.Reason, p.Message = cri.PhaseLost, reason, err.Error()
		p.Verified, p.ReadyAt = "", time.Time{}
	})
	l.recorder.ImageLost(l.entry.Name, reason)
	l.log.WarnContext(ctx, "image is lost", "reason", reason, "error", err)
}
