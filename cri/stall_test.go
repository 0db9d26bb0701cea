package cri

import (
	"strings"
	"testing"
	"time"
)

// look is what is seen of a pull at a moment.
type look struct {
	after   time.Duration
	phase   Phase
	fetched int64
	state   LayerState
	free    int64
}

func TestLiveliness(t *testing.T) {
	t.Parallel()
	const limit = time.Minute
	for name, c := range map[string]struct {
		looks []look
		alive bool // at the last look
	}{
		"nothing for a while":  {[]look{{0, PhasePulling, 0, LayerFetching, unseen}, {limit - time.Second, PhasePulling, 0, LayerFetching, unseen}}, true},
		"nothing for too long": {[]look{{0, PhasePulling, 0, LayerFetching, unseen}, {limit, PhasePulling, 0, LayerFetching, unseen}}, false},
		"steady": {[]look{
			{0, PhasePulling, 0, LayerFetching, unseen}, {limit - 1, PhasePulling, leastProgress, LayerFetching, unseen}, {2*limit - 2, PhasePulling, leastProgress, LayerFetching, unseen},
		}, true},
		"trickle": {[]look{
			{0, PhasePulling, 0, LayerFetching, unseen}, {limit / 2, PhasePulling, leastProgress / 2, LayerFetching, unseen}, {limit, PhasePulling, leastProgress - 1, LayerFetching, unseen},
		}, false},
		"a layer goes on": {[]look{{0, PhasePulling, 9, LayerFetching, unseen}, {limit, PhasePulling, 9, LayerFetched, unseen}}, true},
		"unpacking writes": {[]look{
			{0, PhaseUnpacking, 9, LayerUnpacking, 5 << 20}, {limit, PhaseUnpacking, 9, LayerUnpacking, 4 << 20}, {2 * limit, PhaseUnpacking, 9, LayerUnpacking, 3 << 20},
		}, true},
		"unpacking writes nothing": {[]look{{0, PhaseUnpacking, 9, LayerUnpacking, 5 << 20}, {limit, PhaseUnpacking, 9, LayerUnpacking, 5 << 20}}, false},
		"unpacking cannot be seen": {[]look{{0, PhaseUnpacking, 9, LayerUnpacking, unseen}, {10 * limit, PhaseUnpacking, 9, LayerUnpacking, unseen}}, true},
	} {
		start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		l := newLiveliness(limit, start)
		var got bool
		var p Progress
		for _, k := range c.looks {
			p = Progress{
				Reference: "r.example/a:1", Phase: k.phase, Bytes: Bytes{Total: 10, Fetched: k.fetched}, Layers: []LayerProgress{{State: k.state}},
			}
			got = l.alive(p, k.free, start.Add(k.after))
		}
		if got != c.alive {
			t.Errorf("%s: alive %v, want %v", name, got, c.alive)
		}
		if err := l.stalled(p); ReasonOf(err) != ReasonStalled || !strings.Contains(err.Error(), "1m0s") || !strings.Contains(err.Error(), "r.example/a:1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if newLiveliness(0, time.Now()).watches() {
		t.Error("a timeout of 0 ends pulls")
	}
}
