package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
)

// longestReconnect is the longest wait before the runtime is asked again for a connection or for its events.
const longestReconnect = 10 * time.Second

// connect connects to the runtime, for as long as it takes: on a node that boots the agent may be there first. Where
// waiting is no use the error says why.
func (a *Agent) connect(ctx context.Context) error {
	for failures := 1; ; failures++ {
		rt, err := a.Connect(ctx)
		if err == nil {
			a.connected(ctx, rt)
			return nil
		}
		if err := a.unconnected(ctx, err, failures); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

func (a *Agent) connected(ctx context.Context, rt Runtime) {
	a.runtime = rt
	info := rt.Info()
	a.Board.SetRuntime(info, nil)
	a.Logger.InfoContext(ctx, "connected to the container runtime", "runtime", info.Name, "version", info.Version,
		"endpoint", info.ImageEndpoint, "snapshotter", info.Snapshotter, "progress", info.Detail)
}

// unconnected tells that the runtime does not answer and waits for a while, or gives the error that waiting does not mend.
func (a *Agent) unconnected(ctx context.Context, err error, failures int) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // we were told to stop: that is no failure
	}
	a.Board.SetRuntime(cri.Info{}, err)
	d := reconnectPause(failures)
	switch cri.ReasonOf(err) {
	case cri.ReasonRuntimeUnavailable:
		a.Logger.WarnContext(ctx, "the container runtime does not answer", "error", err, "nextTry", d.Round(time.Millisecond))
	case cri.ReasonAnotherAgent: // mostly the one that this one replaces
		d = time.Second
		if failures == 1 {
			a.Logger.WarnContext(ctx, "another agent works on this node; this one waits for its end", "error", err)
		}
	default:
		return fmt.Errorf("connect to the container runtime: %w", err)
	}
	wait(ctx, d)
	return nil
}

// reconnectPause is the wait after n failures in a row.
func reconnectPause(n int) time.Duration { return min(pause(n, false)/2, longestReconnect) }

// wait waits, or less when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
