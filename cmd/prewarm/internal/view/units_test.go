package view

import (
	"math"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 B", 1: "1 B", 999: "999 B", 1000: "1.00 kB", 9_994: "9.99 kB", 9_995: "10.0 kB", 99_949: "99.9 kB", 99_950: "100 kB",
		999_499: "999 kB", 999_500: "1.00 MB", 1_234_567: "1.23 MB", 20_100_000_000: "20.1 GB", 5e12: "5.00 TB", -1_500: "-1.50 kB",
		math.MaxInt64: "9 EB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got := Rate(20_100_000.4); got != "20.1 MB/s" {
		t.Errorf("rate %q", got)
	}
}

func TestSizesAreAtMostSevenWide(t *testing.T) {
	t.Parallel()
	for n := int64(1); n < 9e14; n = n*11/10 + 1 {
		if s := Size(n); len(s) > len("1.23 GB") {
			t.Errorf("%d: %q", n, s)
		}
	}
}

func TestElapsed(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 1900 * time.Millisecond: "1s", 59 * time.Second: "59s", time.Minute: "1m00s",
		62 * time.Second: "1m02s", time.Hour - time.Second: "59m59s", time.Hour + 2*time.Minute: "1h02m", 100 * time.Hour: "100h00m",
	} {
		if got := Elapsed(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		340 * time.Millisecond: "0.3s", 9940 * time.Millisecond: "9.9s", 9960 * time.Millisecond: "10s", 61500 * time.Millisecond: "1m02s",
	} {
		if got := took(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestSecondsAndPercent(t *testing.T) {
	t.Parallel()
	if got := seconds(1e300); got != 1000*time.Hour {
		t.Errorf("an endless time left is %v", got)
	}
	if got := seconds(21.4); got != 21*time.Second {
		t.Errorf("21.4 s is %v", got)
	}
	if a, b := percent(0.9999), percent(1); a != 99 || b != 100 {
		t.Errorf("almost all is %d %%, all is %d %%", a, b)
	}
}
