package main

import (
	"fmt"
	"io"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// lines tells the changes of images in a line each.
type lines struct {
	out io.Writer
	// told is the last line of each image and layer.
	told map[string]string
}

func (l *lines) show(s status.Snapshot) {
	for _, i := range s.Images {
		if i.Phase == "" {
			continue
		}
		l.tell(i.Image, fmt.Sprintf("  %-3s  %s %s", i.Image, i.Phase, i.Reason))
		if i.Phase != cri.PhasePulling && i.Phase != cri.PhaseUnpacking {
			continue
		}
		for n, layer := range i.Layers {
			text := fmt.Sprintf("  %-3s    layer %d of %d  %7.1f MB  %s", i.Image, n+1, len(i.Layers), float64(layer.Size)/1e6, layer.State)
			if layer.State == cri.LayerFetching && layer.Size > 0 {
				text += fmt.Sprintf(" %d %%", 10*(10*layer.Fetched/layer.Size))
			}
			l.tell(fmt.Sprintf("%s layer %d", i.Image, n), text)
		}
	}
}

func (l *lines) tell(of, line string) {
	if l.told[of] != line {
		l.told[of] = line
		_, _ = fmt.Fprintln(l.out, line)
	}
}
