package agent

import (
	"testing"
	"time"
)

func TestPausesGrowAndAreBounded(t *testing.T) {
	t.Parallel()
	for _, seldom := range []bool{false, true} {
		first, longest := firstPause, longestPause
		if seldom {
			first, longest = firstSeldom, longestSeldom
		}
		want := first
		for n := 1; n < 40; n++ {
			distinct := map[time.Duration]bool{}
			for range 20 {
				d := pause(n, seldom)
				distinct[d] = true
				if d < want || d > want+want/2 {
					t.Fatalf("try %d: %v, want %v to %v", n, d, want, want+want/2)
				}
			}
			if len(distinct) < 2 {
				t.Errorf("try %d: no jitter", n)
			}
			want = min(want*2, longest)
		}
	}
}
