package agent

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestTheQueueGoesByPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		release, err := q.acquire(t.Context(), 9)
		if err != nil {
			t.Fatal(err)
		}
		var order []int
		for _, position := range []int{3, 1, 2, 0} {
			go func() {
				release, err := q.acquire(t.Context(), position)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, position)
				release()
				release() // harmless
			}()
			synctest.Wait()
		}
		release()
		synctest.Wait()
		if !slices.Equal(order, []int{0, 1, 2, 3}) {
			t.Errorf("order %v", order)
		}
		if q.free != 1 || len(q.waiting) != 0 {
			t.Errorf("%d free, %d waiting, want 1 and 0", q.free, len(q.waiting))
		}
	})
}

func TestWhoGivesUpWaitingLosesNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		release, err := q.acquire(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := q.acquire(ctx, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("acquire after cancel: %v", err)
			}
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		release()
		if q.free != 1 || len(q.waiting) != 0 {
			t.Errorf("%d free, %d waiting, want 1 and 0", q.free, len(q.waiting))
		}
	})
}

func TestMoreSlotsLetMoreIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1)
		var in atomic.Int32
		for i := range 3 {
			go func() {
				if _, err := q.acquire(t.Context(), i); err == nil {
					in.Add(1)
				}
			}()
		}
		synctest.Wait()
		if in.Load() != 1 {
			t.Errorf("%d are in, want 1", in.Load())
		}
		q.resize(3)
		synctest.Wait()
		if in.Load() != 3 {
			t.Errorf("%d are in, want 3", in.Load())
		}
	})
}
