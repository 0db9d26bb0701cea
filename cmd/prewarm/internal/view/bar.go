package view

import (
	"strings"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/prewarm-dev/prewarm/cri"
)

// barMin and barMax bound the cells of a bar, its brackets included; where less is left there is none.
const barMin, barMax = 8, 52

// bar draws bytes: + was here before the pull, = has been fetched.
func bar(b cri.Bytes, width int) string {
	if width < barMin {
		return ""
	}
	var s strings.Builder
	err := mpb.BarStyle().Padding(" ").Build().Fill(&s, decor.Statistics{
		AvailableWidth: min(width, barMax),
		Total:          max(1, b.Total),
		Current:        b.Present + b.Fetched,
		Refill:         b.Present,
		Completed:      b.Missing() == 0,
	})
	if err != nil { // a strings.Builder takes everything
		return ""
	}
	return s.String()
}
