package agent

import (
	"context"
	"slices"
	"sync"
	"time"
)

// placeKept is how long a place is kept for an image of which it is not known yet whether it needs a pull: others that
// come later in the configuration wait for it as long, and no longer, since its registry may be away.
const placeKept = 10 * time.Second

// queue hands out the slots for pulls. The lowest position goes first, which is the order of the configuration; a slot
// is never taken away from who has it.
type queue struct {
	mu     sync.Mutex
	slots  int
	free   int // below zero while there are fewer slots than are in use
	places []*place
}

// place is one in the queue. Its owner calls ask or acquire when it wants a slot, and leave in any case.
type place struct {
	queue    *queue
	position int
	// kept says that those behind wait for it though it does not ask for a slot yet.
	kept  bool
	timer *time.Timer
	// turn is closed when it has a slot; nil while it does not ask for one.
	turn chan struct{}
}

// newQueue has one slot.
func newQueue() *queue { return &queue{slots: 1, free: 1} }

// resize changes the number of slots; slots that are in use stay in use.
func (q *queue) resize(slots int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free += slots - q.slots
	q.slots = slots
	q.advance()
}

// enter takes a place behind all of the same or a lower position.
func (q *queue) enter(position int) *place {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := &place{queue: q, position: position, kept: true}
	p.timer = time.AfterFunc(placeKept, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		p.kept = false
		q.advance()
	})
	i, _ := slices.BinarySearchFunc(q.places, position, func(other *place, position int) int {
		if other.position <= position {
			return -1
		}
		return 1
	})
	q.places = slices.Insert(q.places, i, p)
	return p
}

// ask asks for a slot, which leave gives back; what it returns is closed once there is one.
func (p *place) ask() <-chan struct{} {
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	turn := make(chan struct{}) // p.turn is nil again when the place is left
	p.turn = turn
	p.queue.advance()
	return turn
}

// acquire waits for a slot.
func (p *place) acquire(ctx context.Context) error {
	select {
	case <-p.ask():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives up the place, and the slot if it has one; a second time it does nothing.
func (p *place) leave() {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	p.timer.Stop()
	if i := slices.Index(q.places, p); i >= 0 {
		q.places = slices.Delete(q.places, i, i+1)
	} else if p.turn != nil {
		q.free++
	}
	p.turn = nil
	q.advance()
}

// advance gives free slots to those who ask for one and have no other before them that may do so soon.
func (q *queue) advance() {
	left := q.free
	q.places = slices.DeleteFunc(q.places, func(p *place) bool {
		switch {
		case left <= 0:
			return false
		case p.turn == nil:
			if p.kept {
				left--
			}
			return false
		}
		left--
		q.free--
		close(p.turn)
		return true
	})
}
