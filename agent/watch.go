package agent

import (
	"context"
	"errors"

	"github.com/prewarm-dev/prewarm/cri"
)

// watchRuntime passes on what happens in the runtime. Every new stream begins with an empty event, which makes every
// image look for itself: what happened while there was no stream is seen then.
func (a *Agent) watchRuntime(ctx context.Context) <-chan cri.Event {
	events := make(chan cri.Event)
	a.wg.Go(func() {
		for failures := 1; ctx.Err() == nil; failures++ {
			for e, err := range a.runtime.Events(ctx) {
				switch {
				case errors.Is(err, errors.ErrUnsupported):
					a.Logger.InfoContext(ctx, "images are verified on a timer only", "reason", err)
					return
				case err != nil:
					a.runtimeAway(ctx, err)
				default:
					if e == (cri.Event{}) { // the stream stands
						a.Board.SetRuntime(a.runtime.Info(), nil)
						failures = 0
					}
					select {
					case events <- e:
					case <-ctx.Done():
					}
				}
			}
			wait(ctx, reconnectPause(max(1, failures)))
		}
	})
	return events
}

// runtimeAway tells that the runtime does not answer; the images stay as they are until it can be asked.
func (a *Agent) runtimeAway(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	a.Board.SetRuntime(a.runtime.Info(), err)
	a.Recorder.RuntimeReconnected()
	a.Logger.WarnContext(ctx, "the runtime's events have ended", "error", err)
}
