package agent

import (
	"context"
	"slices"
	"sync"
)

// queue hands out the slots for pulls. Among those who wait the lowest position goes first, which is the order of the
// configuration; a slot is never taken away from who has it.
type queue struct {
	mu      sync.Mutex
	slots   int
	free    int // below zero while there are fewer slots than are in use
	waiting []ticket
}

type ticket struct {
	position int
	turn     chan struct{}
}

func newQueue(slots int) *queue { return &queue{slots: slots, free: slots} }

// resize changes the number of slots; slots that are in use stay in use.
func (q *queue) resize(slots int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free += slots - q.slots
	q.slots = slots
	q.advance()
}

// acquire waits for a slot. The returned function gives it back; calling it twice is harmless.
func (q *queue) acquire(ctx context.Context, position int) (release func(), err error) {
	t := ticket{position: position, turn: make(chan struct{})}
	q.mu.Lock()
	i, _ := slices.BinarySearchFunc(q.waiting, position, func(w ticket, p int) int {
		if w.position <= p {
			return -1
		}
		return 1
	})
	q.waiting = slices.Insert(q.waiting, i, t)
	q.advance()
	q.mu.Unlock()
	select {
	case <-t.turn:
		return sync.OnceFunc(q.release), nil
	case <-ctx.Done():
		q.abandon(t)
		return nil, context.Cause(ctx)
	}
}

func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	q.advance()
}

// abandon takes a ticket back; its turn may have come in the meantime.
func (q *queue) abandon(t ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, t)
	if i < 0 {
		q.free++
	} else {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.advance()
}

// advance gives free slots to those who wait.
func (q *queue) advance() {
	for q.free > 0 && len(q.waiting) > 0 {
		close(q.waiting[0].turn)
		q.waiting = slices.Delete(q.waiting, 0, 1)
		q.free--
	}
}
