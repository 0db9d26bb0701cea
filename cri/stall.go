package cri

import (
	"fmt"
	"slices"
	"time"
)

// leastProgress is how many bytes a pull must fetch, or unpacking write, to count as moving, in bytes for each
// StallTimeout: a connection that trickles a byte now and then is as good as dead.
const leastProgress = 64 << 10

// liveliness tells whether a pull moves: by the bytes that arrive, by the states of layers, and while a layer is being
// unpacked, of which the runtime tells nothing, by what is written to the file system of the images. Somebody else may
// write there too; then a stall is seen later, which is better than to end an unpacking that goes well. Where that file
// system cannot be seen, as from a pod that has only the socket, an unpacking is never taken for a stall.
type liveliness struct {
	timeout time.Duration
	since   time.Time
	fetched int64
	free    int64
	states  []LayerState
}

func newLiveliness(timeout time.Duration, now time.Time) *liveliness {
	return &liveliness{timeout: timeout, since: now}
}

// watches reports whether there is anything to watch for.
func (l *liveliness) watches() bool { return l.timeout > 0 }

// unseen is what is free of a file system that cannot be seen.
const unseen = -1

// alive takes a look at a pull in, and at what is free of the file system of the images, in bytes.
func (l *liveliness) alive(p Progress, free int64, now time.Time) bool {
	states := make([]LayerState, len(p.Layers))
	for i, layer := range p.Layers {
		states[i] = layer.State
	}
	written := l.free - free
	unpacks := p.Phase == PhaseUnpacking
	if !slices.Equal(states, l.states) || p.Bytes.Fetched-l.fetched >= leastProgress ||
		unpacks && (free == unseen || max(written, -written) >= leastProgress) {
		l.states, l.fetched, l.free, l.since = states, p.Bytes.Fetched, free, now
		return true
	}
	return now.Sub(l.since) < l.timeout
}

// stalled is the error of a pull that stood still.
func (l *liveliness) stalled(p Progress) error {
	what := fmt.Sprintf("less than %d bytes arrived", leastProgress)
	if p.Phase == PhaseUnpacking {
		what = "nothing was unpacked"
	}
	return &Error{
		Reason: ReasonStalled, Noun: p.Reference, Remedy: "check the way to the registry, and the node's disk; what was fetched is kept",
		Err: fmt.Errorf("%s for %v, %d of %d bytes are here", what, l.timeout, p.Bytes.Present+p.Bytes.Fetched, p.Bytes.Total),
	}
}
