package agent

import (
	"context"
	"sync"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// permit says whether pulls may begin on this node, and how much room they must leave. Those that run go on.
type permit struct {
	mu      sync.Mutex
	hold    config.Hold
	kubelet config.Thresholds
	changed chan struct{}
	// claims are what the pulls that run need of the disk, in bytes.
	claims map[*life]int64
}

func newPermit() *permit { return &permit{changed: make(chan struct{}), claims: map[*life]int64{}} }

// claim claims room on the disk for a pull, if there is as much beside what the pulls that run have claimed, which it gives
// too. Those have used a part of it already, so this errs on the safe side. All are in bytes.
func (p *permit) claim(l *life, need, room int64) (others int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other, claimed := range p.claims {
		if other != l {
			others += claimed
		}
	}
	if need > 0 && need+others > room {
		return others, false
	}
	p.claims[l] = need
	return others, true
}

// unclaim gives up what a pull has claimed.
func (p *permit) unclaim(l *life) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.claims, l)
}

// set says why no pull may begin; the empty Hold that they may.
func (p *permit) set(h config.Hold) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hold == h {
		return
	}
	p.hold = h
	close(p.changed)
	p.changed = make(chan struct{})
}

// learn takes in the kubelet's thresholds, which the next look at the disk uses.
func (p *permit) learn(t config.Thresholds) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kubelet = t
}

func (p *permit) thresholds() config.Thresholds {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kubelet
}

// get gives the newest, and what is closed when it changes.
func (p *permit) get() (config.Hold, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hold, p.changed
}

// turn waits until a pull of this image may begin: until it is its turn and the node is in order. It ends early, with
// present, when somebody else has brought the image.
func (l *life) turn(ctx context.Context, img cri.Image) (present bool, err error) {
	for {
		if present, err := l.permitted(ctx, img); present || err != nil {
			return present, err
		}
		l.enter()
		l.report(ctx, func(p *status.ImageStatus) {
			p.Phase, p.Reason, p.Message = cri.PhaseWaiting, cri.ReasonQueued, "waits for its turn to be pulled"
		})
		if present, err := l.await(ctx, img, l.place.ask()); present || err != nil {
			return present, err
		}
		if h, _ := l.permit.get(); h.Reason == "" {
			return false, nil
		}
		l.leave()
	}
}

// permitted waits until the node is in order, or the image is there.
func (l *life) permitted(ctx context.Context, img cri.Image) (present bool, err error) {
	for {
		h, changed := l.permit.get()
		if h.Reason == "" {
			return false, nil
		}
		l.leave() // nobody waits for one that may not begin
		l.report(ctx, func(p *status.ImageStatus) {
			p.Phase, p.Reason, p.Message = cri.PhaseWaiting, h.Reason, h.Message
		})
		l.log.InfoContext(ctx, "no pull begins", "reason", h.Reason, "message", h.Message)
		if present, err := l.await(ctx, img, changed); present || err != nil {
			return present, err
		}
	}
}

// await waits for a channel to be closed, or for the image to be there.
func (l *life) await(ctx context.Context, img cri.Image, closed <-chan struct{}) (present bool, err error) {
	for {
		select {
		case <-closed:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-l.poked:
			if _, err := l.runtime.Verify(ctx, img); err == nil {
				return true, nil
			}
		}
	}
}
