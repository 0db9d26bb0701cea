package view

import (
	"fmt"
	"math"
	"time"
)

// Size writes bytes with three significant digits and a decimal unit, as registries and disks are measured: 1.23 GB.
func Size(n int64) string {
	if n < 0 {
		return "-" + Size(-n)
	}
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB", "PB"} {
		v /= 1000
		switch { // the bounds are where rounding would give a digit more
		case v < 9.995:
			return fmt.Sprintf("%.2f %s", v, unit)
		case v < 99.95:
			return fmt.Sprintf("%.1f %s", v, unit)
		case v < 999.5:
			return fmt.Sprintf("%.0f %s", v, unit)
		}
	}
	return fmt.Sprintf("%.0f EB", v/1000)
}

// Rate writes bytes per second.
func Rate(bytesPerSecond float64) string {
	return Size(int64(math.Round(bytesPerSecond))) + "/s"
}

// Elapsed writes a time in whole seconds: 12s, 1m02s, 1h02m.
func Elapsed(d time.Duration) string {
	s := int64(max(0, d) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	default:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
}

// took writes how long something took: tenths matter below ten seconds.
func took(d time.Duration) string {
	if d < 9950*time.Millisecond {
		return fmt.Sprintf("%.1fs", max(0, d).Seconds())
	}
	return Elapsed(d.Round(time.Second))
}

// percent is how much of the bytes is here; 100 only when nothing is missing.
func percent(fraction float64) int { return int(math.Floor(fraction * 100)) }

// seconds makes a duration of what cri tells in seconds.
func seconds(s float64) time.Duration {
	if s > (1000 * time.Hour).Seconds() {
		return 1000 * time.Hour
	}
	return time.Duration(math.Round(s)) * time.Second
}
