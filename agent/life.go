package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

const (
	// roomInterval is the time between two looks at a disk that is too small.
	roomInterval = 30 * time.Second
	// fights is after how many losses in a row somebody must be taking the image away on purpose.
	fights = 5
)

// life is one image on this node, from the configuration to the hold; each step is a file beside this one. One
// goroutine runs it, so its steps need no locks; only what events are matched against is shared.
type life struct {
	entry    config.Image
	position int // in the configuration
	options  config.Pull
	disk     config.Disk
	node     string
	runtime  Runtime
	board    Board
	recorder Recorder
	queue    *queue
	place    *place // in the queue; nil where it has none
	permit   *permit
	// pinWritten is when the pin was written last.
	pinWritten time.Time
	keychain   Keychain
	// silent says that the runtime gave no answer when it was asked last.
	silent bool
	log    *slog.Logger
	// poked says that something happened to what this image holds.
	poked chan struct{}

	mu   sync.Mutex
	held map[string]bool // names of image records and chain IDs that this image consists of
}

// run brings the image onto the node and keeps it there until ctx ends.
func (l *life) run(ctx context.Context) {
	failures, losses := 0, 0
	for ctx.Err() == nil {
		img, err := l.warm(ctx)
		if err != nil {
			failures++
			l.rest(ctx, err, max(failures, losses))
			continue
		}
		failures = 0
		since := time.Now()
		err = l.hold(ctx, img)
		if time.Since(since) >= calmAfter {
			losses = 0
		}
		if losses++; losses > 1 { // the first loss is mended at once
			l.rest(ctx, err, losses-1)
		}
	}
}

// warm brings the image onto the node; when it returns without an error the image is ready.
func (l *life) warm(ctx context.Context) (cri.Image, error) {
	l.enter()
	defer l.leave()
	img, check, err := l.present(ctx)
	if err == nil {
		l.ready(ctx, img, check)
		return img, nil
	}
	if reason := cri.ReasonOf(err); reason == cri.ReasonRuntimeUnavailable || reason == cri.ReasonCanceled {
		return img, err // whether the image is there is not known, and the registry cannot tell
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
	l.ready(ctx, img, check)
	return img, nil
}

// enter takes a place in the queue, unless it has one.
func (l *life) enter() {
	if l.place == nil {
		l.place = l.queue.enter(l.position)
	}
}

func (l *life) leave() {
	if l.place != nil {
		l.place.leave()
		l.place = nil
	}
}

// rest waits before the next try. It ends early when the image turns up: somebody else may have pulled it.
func (l *life) rest(ctx context.Context, err error, failures int) {
	if ctx.Err() != nil {
		return
	}
	reason := cri.ReasonOf(err)
	d, phase := pause(failures, reason.Permanent() || reason == cri.ReasonDiskFull), cri.PhaseFailed
	if reason == cri.ReasonDiskTooSmall { // not a failure of ours, and room is made at any time
		d, phase = roomInterval, cri.PhaseWaiting
	}
	if failures >= fights && canAsk(err) {
		err = fmt.Errorf("something on this node removes the image again and again: %w", err)
	}
	l.log.WarnContext(ctx, "image is not ready", "reason", reason, "error", err, "nextTry", d.Round(time.Second))
	l.report(ctx, func(p *status.ImageStatus) {
		p.Phase, p.Reason, p.Message = phase, reason, err.Error()
		p.Rate, p.ETASeconds = 0, nil
	})
	timer, again := time.NewTimer(d), time.NewTimer(askAgain)
	defer timer.Stop()
	defer again.Stop()
	again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-l.poked:
			again.Reset(askAgain) // an event can come before all of the runtime knows of the image
		case <-again.C:
		}
		if _, _, err := l.look(ctx); err == nil {
			return
		}
	}
}

// report changes the state of this image on the board.
func (l *life) report(ctx context.Context, change func(*status.ImageStatus)) {
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
