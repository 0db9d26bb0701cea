package credentials

import (
	"context"
	"sync"
)

// flights lets those who ask the same at the same time wait for one answer, and nobody for the answer to another question.
type flights[V any] struct {
	mu      sync.Mutex
	running map[string]*flight[V]
}

// flight is a question that is being asked.
type flight[V any] struct {
	done  chan struct{}
	value V
	err   error
	// abandoned is true where the one who asked gave up: that says nothing to those who wait.
	abandoned bool
}

// do gives the answer of ask, or that of somebody who asks it under the same key already.
func (f *flights[V]) do(ctx context.Context, key string, ask func(context.Context) (V, error)) (V, error) {
	for {
		one, mine := f.join(key)
		if mine {
			one.value, one.err = ask(ctx)
			one.abandoned = ctx.Err() != nil
			f.mu.Lock()
			delete(f.running, key)
			f.mu.Unlock()
			close(one.done)
			return one.value, one.err
		}
		select {
		case <-one.done:
			if !one.abandoned {
				return one.value, one.err
			}
		case <-ctx.Done():
			var none V
			return none, context.Cause(ctx)
		}
	}
}

// join gives the flight under a key; it is the caller's to make where there was none.
func (f *flights[V]) join(key string) (one *flight[V], mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one, ok := f.running[key]; ok {
		return one, false
	}
	if f.running == nil {
		f.running = map[string]*flight[V]{}
	}
	one = &flight[V]{done: make(chan struct{})}
	f.running[key] = one
	return one, true
}
