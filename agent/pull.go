package agent

import (
	"context"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// lookInterval is the time between two looks at a pull: often enough for a person who watches, and a look costs the
// runtime about a millisecond.
const lookInterval = time.Second

// pull waits for its turn and lets the runtime fetch and unpack what is missing, if there is room for it.
func (l *life) pull(ctx context.Context, img cri.Image) error {
	l.watch(img)
	if present, err := l.turn(ctx, img); present || err != nil {
		return err
	}
	defer l.permit.unclaim(l)
	if err := l.guard(ctx, img); err != nil {
		return err
	}
	last, err := l.fetch(ctx, img, func(p cri.Progress) {
		l.report(ctx, func(now *status.ImageStatus) { now.Progress = p })
	})
	l.recorder.PullEnded(last, cri.ReasonOf(err))
	return err
}

// fetch lets the runtime pull an image, with one credential after the other, and shows how far it is. It gives what the last
// try has come to.
func (l *life) fetch(ctx context.Context, img cri.Image, show func(cri.Progress)) (last cri.Progress, err error) {
	l.log.InfoContext(ctx, "pull started", "digest", img.Digest, "bytes", img.Size(), "layers", len(img.Layers))
	err = l.keychain.Try(ctx, l.entry.Reference, func(c *cri.Credential) error {
		for p, err := range l.runtime.Pull(ctx, img, cri.PullOptions{
			Name: l.entry.Name, Engine: l.options.Engine, Interval: lookInterval,
			StallTimeout: l.options.StallTimeout.Duration, Credential: c,
		}) {
			last = p
			show(p)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		l.log.InfoContext(ctx, "pulled", "digest", img.Digest, "fetched", last.Bytes.Fetched, "present", last.Bytes.Present)
	}
	return last, err
}
