package agent

import (
	"errors"
	"time"
)

// patience is how long the loop may be busy before it counts as stuck; a round of it takes less than a millisecond.
const patience = 10 * time.Second

// Healthy tells why the agent should be started anew: its loop is stuck. A runtime or an API server that does not answer
// is no reason, since a new agent could do no more than wait for it, too.
func (a *Agent) Healthy() error {
	if !a.looping.Load() {
		return nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case a.asked <- struct{}{}:
		return nil
	case <-timer.C:
		if !a.looping.Load() { // it has ended meanwhile
			return nil
		}
		return errors.New("the loop has not gone round for " + patience.String())
	}
}
