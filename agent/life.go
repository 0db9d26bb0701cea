package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

// life is one image on this node, from the configuration to the hold; each step is a file beside this one. One
// goroutine runs it, so its steps need no locks; only what events are matched against is shared.
type life struct {
	entry    config.Image
	position int // in the configuration
	options  config.Pull
	runtime  Runtime
	board    Board
	recorder Recorder
	queue    *queue
	log      *slog.Logger
	// poked says that something happened to what this image holds.
	poked chan struct{}

	mu   sync.Mutex
	held map[string]bool // names of image records and chain IDs that this image consists of
}

// run brings the image onto the node and keeps it there until ctx ends.
func (l *life) run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		img, err := l.warm(ctx)
		if err == nil {
			since := time.Now()
			err = l.hold(ctx, img)
			if time.Since(since) >= calmAfter {
				failures = 0
			}
			if failures == 0 { // the first loss is mended at once
				failures++
				continue
			}
		}
		failures++
		l.rest(ctx, err, failures)
	}
}

// warm brings the image onto the node; when it returns without an error the image is ready.
func (l *life) warm(ctx context.Context) (cri.Image, error) {
	img, check, err := l.present(ctx)
	if err == nil {
		return img, l.ready(ctx, img, check)
	}
	if img, err = l.resolve(ctx); err != nil {
		return img, err
	}
	if err := l.pull(ctx, img); err != nil {
		return img, err
	}
	check, err = l.verify(ctx, img)
	if err != nil {
		return img, err
	}
	return img, l.ready(ctx, img, check)
}

// rest waits before the next try. It ends early when the image turns up: somebody else may have pulled it.
func (l *life) rest(ctx context.Context, err error, failures int) {
	if ctx.Err() != nil {
		return
	}
	reason := cri.ReasonOf(err)
	d := pause(failures, reason.Permanent())
	l.log.WarnContext(ctx, "image is not ready", "reason", reason, "error", err, "nextTry", d.Round(time.Second))
	l.report(ctx, func(p *cri.Progress) {
		p.Phase, p.Reason, p.Message = cri.PhaseFailed, reason, err.Error()
		p.Rate, p.ETASeconds = 0, nil
	})
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-l.poked:
			if _, _, err := l.look(ctx); err == nil {
				return
			}
		}
	}
}

// report changes the state of this image on the board.
func (l *life) report(ctx context.Context, change func(*cri.Progress)) {
	if err := l.board.Update(l.entry.Name, change); err != nil && ctx.Err() == nil {
		l.log.ErrorContext(ctx, "state refused", "error", err) // a fault of ours: the state before stays
	}
}

// watch says what this image consists of, for matching events.
func (l *life) watch(img cri.Image) {
	held := map[string]bool{
		l.entry.Reference.Canonical(): true, img.Config.String(): true,
		img.Reference.Repository() + "@" + img.Digest.String(): true,
	}
	for _, layer := range img.Layers {
		held[layer.ChainID.String()] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = held
}

// poke tells the image of an event; the empty one concerns every image.
func (l *life) poke(e cri.Event) {
	l.mu.Lock()
	concerned := e == cri.Event{} || l.held[e.Reference] || l.held[e.ChainID.String()]
	l.mu.Unlock()
	if !concerned {
		return
	}
	select {
	case l.poked <- struct{}{}:
	default: // it has not yet looked at the last one, and will then see this too
	}
}

// canAsk reports whether an error tells something about the image, and not only that the runtime could not be asked.
func canAsk(err error) bool {
	return errors.Is(err, cri.ErrNotPresent) || errors.Is(err, cri.ErrNotUnpacked) || errors.Is(err, cri.ErrOtherImage)
}
