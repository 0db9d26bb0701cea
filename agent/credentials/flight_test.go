package credentials

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Those who ask the same at the same time get one answer; those who ask something else do not wait for it.
func TestOneAnswerForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f flights[int]
		asked := 0
		slow := func(context.Context) (int, error) {
			asked++
			time.Sleep(time.Minute)
			return asked, nil
		}
		for range 5 {
			go func() {
				if n, err := f.do(t.Context(), "slow", slow); n != 1 || err != nil {
					t.Errorf("got %d, %v", n, err)
				}
			}()
		}
		synctest.Wait()
		begun := time.Now()
		if n, err := f.do(t.Context(), "other", func(context.Context) (int, error) { return 7, nil }); n != 7 || err != nil || time.Since(begun) != 0 {
			t.Errorf("another question: %d, %v after %v", n, err, time.Since(begun))
		}
		time.Sleep(time.Hour)
		if n, err := f.do(t.Context(), "slow", slow); n != 2 || err != nil {
			t.Errorf("asked later: %d, %v, want a new answer", n, err)
		}
	})
}

// One who gives up leaves at once, and takes nobody along.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f flights[int]
		ask := func(ctx context.Context) (int, error) {
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(time.Minute):
				return 1, nil
			}
		}
		first, giveUp := context.WithCancel(t.Context())
		go func() {
			if _, err := f.do(first, "q", ask); !errors.Is(err, context.Canceled) {
				t.Errorf("who asked and gave up: %v", err)
			}
		}()
		synctest.Wait()
		go func() {
			if n, err := f.do(t.Context(), "q", ask); n != 1 || err != nil {
				t.Errorf("who waited for it: %d, %v, want an answer of its own", n, err)
			}
		}()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if _, err := f.do(impatient, "q", ask); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("who would not wait: %v after %v", err, time.Since(begun))
		}
		giveUp()
		time.Sleep(time.Hour)
	})
}
