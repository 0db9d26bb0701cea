package agent

import (
	"context"
	"errors"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// lookAtPin is the time after a pin was written until the runtime must see it: it takes a fraction of a second.
const lookAtPin = time.Second

// pin keeps an image from garbage collection, and lets go of what the image was before. It reports whether the pin is to
// be looked at again soon, because the runtime may not have seen it yet.
func (l *life) pin(ctx context.Context, img cri.Image) (again bool) {
	if h, _ := l.permit.get(); !l.entry.Pin || h.Reason == cri.ReasonDiskPressure {
		l.unpin(ctx, cri.Image{})
		return false
	}
	wrote, err := l.runtime.Pin(ctx, img, l.entry.Name)
	if errors.Is(err, errors.ErrUnsupported) {
		return false
	}
	if wrote {
		l.pinWritten = time.Now()
	}
	again = err == nil && time.Since(l.pinWritten) < lookAtPin
	pinned := err == nil
	if err == nil && !again {
		pinned, err = l.runtime.Pinned(ctx, img)
		if err == nil && !pinned {
			err = errors.New("the pin is written, and the runtime does not see it: is it older than containerd 1.7.14?")
		}
	}
	if err != nil && ctx.Err() == nil {
		l.log.WarnContext(ctx, "image is not pinned: the kubelet may delete it", "error", err)
	}
	l.report(ctx, func(p *status.ImageStatus) {
		if p.Pinned && wrote {
			l.recorder.PinRestored(l.entry.Name)
		}
		p.Pinned = pinned
	})
	l.unpin(ctx, img)
	return again
}

// unpin lets go of every pin of this entry but those of img.
func (l *life) unpin(ctx context.Context, img cri.Image) {
	pins, err := l.runtime.Pins(ctx)
	old := cri.PinsOf(pins, l.entry.Name, img)
	if err == nil && len(old) > 0 {
		err = l.runtime.Unpin(ctx, old...)
		l.log.InfoContext(ctx, "let go of what is not needed any more", "pins", old)
	}
	if err != nil && ctx.Err() == nil {
		l.log.WarnContext(ctx, "cannot unpin", "error", err) // tried again with the next look
	}
	if img.Config == "" {
		l.report(ctx, func(p *status.ImageStatus) { p.Pinned = false })
	}
}

// sweep lets go of the pins and partial downloads of images that are not wanted here any more. What is left behind by an agent that was killed is found too: what we keep says for which image.
func (a *Agent) sweep(ctx context.Context, wanted func(image string) bool) {
	pins, err := a.runtime.Pins(ctx)
	var old []cri.Pin
	for _, p := range pins {
		if !wanted(p.Owner) {
			old = append(old, p)
		}
	}
	if err == nil && len(old) > 0 {
		err = a.runtime.Unpin(ctx, old...)
	}
	dropped, leaseErr := a.runtime.DropLeases(ctx, wanted)
	if err = errors.Join(err, leaseErr); err != nil && ctx.Err() == nil {
		a.Logger.WarnContext(ctx, "something is kept that nobody wants; tried again when the configuration or the runtime changes", "error", err)
	}
	if len(old)+len(dropped) > 0 {
		a.Logger.InfoContext(ctx, "let go of what is not wanted any more", "pins", old, "leases", dropped)
	}
}
