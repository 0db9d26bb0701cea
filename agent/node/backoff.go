package node

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
	// seldomPause is for what only a person can mend.
	seldomPause = time.Minute
	// settle is the time after a write in which the Node's changes are not answered: somebody who keeps undoing what we
	// write gets one write a second of us, no more. A new state does not wait for it.
	settle = time.Second
	// calmAfter is how long a watch must last for its end not to count as a failure.
	calmAfter = 10 * time.Second
)

// pause is the wait after n failures in a row. It doubles from one to the next; the later half of it is random, so that
// the agents of a cluster do not come back at the same time.
func pause(n int, seldom bool) time.Duration {
	d := longestPause
	switch {
	case seldom:
		d = seldomPause
	case n < 8: // no overflow
		d = min(longestPause, firstPause<<max(0, n-1))
	}
	return d/2 + rand.N(d/2) //nolint:gosec // spreads load, keeps no secret
}

// wait waits, or less when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
