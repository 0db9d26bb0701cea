package agent

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// want asks for a slot in the background and calls then once it has it.
func want(t *testing.T, p *place, then func()) {
	t.Helper()
	go func() {
		if err := p.acquire(t.Context()); err != nil {
			t.Error(err)
			return
		}
		then()
	}()
	synctest.Wait()
}

// rested fails the test unless nobody has or wants a slot.
func rested(t *testing.T, q *queue) {
	t.Helper()
	if q.free != q.slots || len(q.places) != 0 {
		t.Errorf("%d of %d slots are free and %d places taken, want all and none", q.free, q.slots, len(q.places))
	}
}

func TestTheQueueGoesByPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		first := q.enter(9)
		want(t, first, func() {})
		var order []int
		for _, position := range []int{3, 1, 2, 0} {
			p := q.enter(position)
			want(t, p, func() {
				order = append(order, position)
				p.leave()
				p.leave() // harmless
			})
		}
		first.leave()
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3}) {
			t.Errorf("order %v", order)
		}
		rested(t, q)
	})
}

// The first of the configuration goes first though its registry answers last, within limits.
func TestAPlaceIsKeptForWhoComesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		first, second, third := q.enter(0), q.enter(1), q.enter(2)
		in := ""
		want(t, third, func() { in += "third " })
		want(t, second, func() { in += "second " })
		if in != "" {
			t.Fatalf("%sdid not wait for the first", in)
		}
		want(t, first, func() { in += "first " })
		first.leave()
		synctest.Wait()
		second.leave()
		synctest.Wait()
		third.leave()
		if in != "first second third " {
			t.Errorf("order: %s", in)
		}
		rested(t, q)
	})
}

func TestAPlaceIsNotKeptForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		first, second := q.enter(0), q.enter(1)
		begun, waited := time.Now(), time.Duration(0)
		want(t, second, func() { waited = time.Since(begun) })
		time.Sleep(2 * placeKept)
		synctest.Wait()
		if waited != placeKept {
			t.Errorf("the second waited %v for the first, want %v", waited, placeKept)
		}
		second.leave()
		want(t, first, func() {})
		first.leave()
		rested(t, q)
	})
}

func TestWhoLeavesKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		first, second := q.enter(0), q.enter(1)
		in := false
		want(t, second, func() { in = true })
		first.leave()
		synctest.Wait()
		if !in {
			t.Error("the second still waits")
		}
		second.leave()
		rested(t, q)
	})
}

func TestWhoGivesUpWaitingLosesNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		first, second := q.enter(0), q.enter(1)
		want(t, first, func() {})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if err := second.acquire(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("acquire after cancel: %v", err)
			}
			second.leave()
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		first.leave()
		rested(t, q)
	})
}

func TestMoreSlotsLetMoreIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		var in atomic.Int32
		places := []*place{q.enter(0), q.enter(1), q.enter(2)}
		for _, p := range places {
			want(t, p, func() { in.Add(1) })
		}
		if in.Load() != 1 {
			t.Errorf("%d are in, want 1", in.Load())
		}
		q.resize(3)
		synctest.Wait()
		if in.Load() != 3 {
			t.Errorf("%d are in, want 3", in.Load())
		}
		for _, p := range places {
			p.leave()
		}
		rested(t, q)
	})
}
