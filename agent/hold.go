package agent

import (
	"context"
	"errors"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
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

// holding is what hold waits for.
type holding struct {
	verify, refresh *time.Timer
	// news is what a refresh that runs has come to; nil where none runs.
	news chan refreshed
	// permit is closed when the node's state changes.
	permit <-chan struct{}
}

// hold watches a ready image, keeps it pinned and fresh; it returns when the image is lost, with the error that says how,
// or when ctx ends. A runtime that cannot be asked proves nothing: the image stays ready until it can.
func (l *life) hold(ctx context.Context, img cri.Image) error {
	ctx, cancel := context.WithCancel(ctx)
	h := &holding{verify: time.NewTimer(lookAtPin), refresh: time.NewTimer(firstRefresh(l.node, l.entry.Name, l.entry.RefreshInterval.Duration))}
	defer h.verify.Stop()
	defer h.refresh.Stop()
	defer func() {
		cancel()
		if h.news != nil { // nothing of ours runs any more when we return
			<-h.news
		}
	}()
	if !l.refreshes() {
		h.refresh.Stop()
	}
	for {
		_, h.permit = l.permit.get()
		if err := l.wait(ctx, h, &img); err != nil {
			return err
		}
		next, err := l.keep(ctx, &img)
		if err != nil {
			return err
		}
		h.verify.Reset(next)
	}
}

// wait waits until the image must be looked at.
func (l *life) wait(ctx context.Context, h *holding, img *cri.Image) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-h.verify.C:
			return nil
		case <-l.poked:
			return nil
		case <-h.permit:
			return nil
		case <-h.refresh.C:
			h.news = make(chan refreshed, 1)
			go func(now cri.Image) { h.news <- l.refresh(ctx, now) }(*img)
		case r := <-h.news:
			h.news = nil
			h.refresh.Reset(nextRefresh(l.entry.RefreshInterval.Duration))
			if r.image.Digest != "" {
				l.take(ctx, img, r.image, r.check)
			}
			return nil
		}
	}
}

// keep proves that the image is still there and pins it. It gives the time until the next look, or the error by which
// the image is lost.
func (l *life) keep(ctx context.Context, img *cri.Image) (time.Duration, error) {
	_, err := l.runtime.Verify(ctx, *img)
	l.answered(ctx, err)
	switch {
	case err == nil, errors.Is(err, cri.ErrOtherImage) && l.moved(ctx, img):
		if l.pin(ctx, *img) {
			return lookAtPin, nil
		}
		return l.interval(), nil
	case canAsk(err):
		l.lost(ctx, err)
		return 0, err
	case ctx.Err() == nil:
		l.log.WarnContext(ctx, "cannot verify", "error", err)
	}
	return askAgain, nil
}

// answered tells when the runtime gives no answer, and when it does again: one that hangs breaks no stream of events.
func (l *life) answered(ctx context.Context, err error) {
	switch silent := cri.ReasonOf(err) == cri.ReasonRuntimeUnavailable; {
	case ctx.Err() != nil:
	case silent:
		l.silent = true
		l.board.SetRuntime(l.runtime.Info(), err)
	case l.silent:
		l.silent = false
		l.board.SetRuntime(l.runtime.Info(), nil)
	}
}

func (l *life) interval() time.Duration {
	if l.runtime.Info().Detail == cri.DetailUnavailable {
		return verifyIntervalBlind
	}
	return verifyInterval
}

// moved follows a reference that somebody else has moved to another image, when that one is ready too: the node is ready
// all along.
func (l *life) moved(ctx context.Context, img *cri.Image) bool {
	next, check, err := l.look(ctx)
	if err != nil {
		return false
	}
	l.take(ctx, img, next, check)
	return true
}

// take goes on with another image, which is ready too.
func (l *life) take(ctx context.Context, img *cri.Image, next cri.Image, check string) {
	l.watch(next)
	size := next.Size()
	l.report(ctx, func(p *status.ImageStatus) {
		p.Digest, p.Verified, p.ReadyAt, p.Layers = next.Digest, check, time.Now(), nil
		p.Bytes = cri.Bytes{Total: size, Present: size}
	})
	l.log.InfoContext(ctx, "reference moved to an image that is ready", "from", img.Digest, "to", next.Digest)
	*img = next
}

// lost says that the image is not ready any more, before anything is done about it.
func (l *life) lost(ctx context.Context, err error) {
	reason := cri.ReasonOf(err)
	l.report(ctx, func(p *status.ImageStatus) {
		p.Phase, p.Reason, p.Message = cri.PhaseLost, reason, err.Error()
		p.Verified, p.ReadyAt, p.Pinned, p.Refresh = "", time.Time{}, false, status.Refresh{}
	})
	l.recorder.ImageLost(l.entry.Name, reason)
	l.log.WarnContext(ctx, "image is lost", "reason", reason, "error", err)
}
