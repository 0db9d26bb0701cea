package agent

import (
	"math/rand/v2"
	"time"
)

// How long an image waits after a try that failed. The first retry comes quickly, since most faults are short; what only
// a change at the registry or in the configuration can mend is asked for seldom.
const (
	firstPause     = 2 * time.Second
	longestPause   = 5 * time.Minute
	firstSeldom    = time.Minute
	longestSeldom  = 30 * time.Minute
	calmAfter      = 10 * time.Minute // an image that was held this long starts from the first pause again
	jitterFraction = 2                // up to 1/2 is added, so that the nodes of a group drift apart
)

// pause is the wait before try number n (1 is the first retry): it doubles from try to try, and up to half of it is
// added at random.
func pause(n int, seldom bool) time.Duration {
	d, limit := firstPause, longestPause
	if seldom {
		d, limit = firstSeldom, longestSeldom
	}
	for ; n > 1 && d < limit; n-- {
		d *= 2
	}
	d = min(d, limit)
	return d + rand.N(d/jitterFraction) //nolint:gosec // spreads load, keeps no secret
}
