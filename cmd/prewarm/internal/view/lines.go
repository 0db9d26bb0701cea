package view

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
)

// totalInterval is the least time between two total lines of an image.
const totalInterval = 5 * time.Second

// Lines shows pulls as lines of a log. The first word of a line says what it tells (resolving, verifying, pulling,
// layer, total, unpacking, ready, failed, skipped), the second is the reference, and then come key=value pairs; sizes
// have three digits and a decimal unit. Programs that want exact numbers take JSON.
type Lines struct {
	stop chan struct{}
	done chan struct{}

	mu    sync.Mutex
	w     io.Writer
	err   error
	shown *cri.Progress
	// since is when the phase of the image began, told when its last total line was written.
	since, told time.Time
}

// NewLines writes to w until Close.
func NewLines(w io.Writer) *Lines {
	l := &Lines{w: w, stop: make(chan struct{}), done: make(chan struct{})}
	go l.beat()
	return l
}

// beat writes total lines while nothing changes: unpacking one layer can take minutes, and must be seen to be alive.
func (l *Lines) beat() {
	defer close(l.done)
	tick := time.NewTicker(totalInterval)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			l.mu.Lock()
			l.tell(time.Now())
			l.mu.Unlock()
		}
	}
}

// Show takes the progress of the image that is being pulled.
func (l *Lines) Show(p cri.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	before := l.shown
	if before == nil {
		before, l.told = &cri.Progress{}, now
	}
	if before.Phase != p.Phase {
		l.since = now
		l.print(phaseLine(p))
	}
	for _, line := range layerLines(*before, p) {
		l.print(line)
	}
	l.shown = &p
	l.tell(now)
}

// End writes the result of an image.
func (l *Lines) End(r Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = nil
	l.print(resultLine(r))
}

// Close ends it; the error is the first one in writing.
func (l *Lines) Close() error {
	close(l.stop)
	<-l.done
	return l.err
}

// tell writes a total line if the last one is old enough.
func (l *Lines) tell(now time.Time) {
	if l.shown == nil || now.Sub(l.told) < totalInterval {
		return
	}
	l.told = now
	l.print(totalLine(*l.shown, now.Sub(l.since)))
}

func (l *Lines) print(line string) {
	if _, err := fmt.Fprintln(l.w, line); err != nil && l.err == nil {
		l.err = err
	}
}

func phaseLine(p cri.Progress) string {
	s := fmt.Sprintf("%s %s", p.Phase, p.Reference)
	if p.Phase != cri.PhasePulling {
		return s
	}
	s += fmt.Sprintf(" digest=%s size=%s", p.Digest, compact(Size(p.Bytes.Total)))
	if p.Detail == cri.DetailUnavailable {
		return s + " progress=unavailable"
	}
	return s + fmt.Sprintf(" present=%s layers=%d done=%d",
		compact(Size(p.Bytes.Present)), len(p.Layers), count(p.Layers, cri.LayerDone))
}

// layerLines has a line for every layer whose state has changed. Where a pull begins, the layers that are done and those
// that wait are in its pulling line.
func layerLines(before, p cri.Progress) []string {
	var lines []string
	for i, l := range p.Layers {
		was := cri.LayerWaiting
		if len(before.Layers) == len(p.Layers) {
			was = before.Layers[i].State
		} else if l.State == cri.LayerDone {
			was = cri.LayerDone
		}
		if was == l.State {
			continue
		}
		lines = append(lines, fmt.Sprintf("layer %s n=%d/%d digest=%s state=%s size=%s",
			p.Reference, i+1, len(p.Layers), short(l.Digest), l.State, compact(Size(l.Size))))
	}
	return lines
}

// totalLine is the sum; age is that of the phase.
func totalLine(p cri.Progress, age time.Duration) string {
	s := fmt.Sprintf("total %s state=%s", p.Reference, p.Phase)
	if len(p.Layers) > 0 && p.Phase == cri.PhasePulling { // of unpacking nobody knows a percentage
		s += fmt.Sprintf(" percent=%d here=%s size=%s rate=%s", percent(p.Bytes.Fraction()),
			compact(Size(p.Bytes.Present+p.Bytes.Fetched)), compact(Size(p.Bytes.Total)), compact(Rate(p.Rate)))
	}
	if p.ETASeconds != nil {
		s += " left=" + Elapsed(seconds(*p.ETASeconds))
	}
	if len(p.Layers) > 0 {
		s += fmt.Sprintf(" done=%d/%d", count(p.Layers, cri.LayerDone), len(p.Layers))
	}
	return s + " for=" + Elapsed(age)
}

func resultLine(r Result) string {
	p := r.Progress
	switch r.Outcome {
	case Pulled:
		s := fmt.Sprintf("ready %s digest=%s size=%s", p.Reference, p.Digest, compact(Size(p.Bytes.Total)))
		if p.Detail != cri.DetailUnavailable {
			s += " fetched=" + compact(Size(p.Bytes.Fetched))
		}
		return s + " time=" + took(r.Took)
	case Present:
		return fmt.Sprintf("ready %s digest=%s size=%s already present", p.Reference, p.Digest, compact(Size(p.Bytes.Total)))
	case NotTried:
		return "skipped " + p.Reference
	default:
		return fmt.Sprintf("failed %s reason=%s", p.Reference, p.Reason)
	}
}

// compact writes a size without the blank, so that a pair stays one word.
func compact(size string) string {
	return string(slices.DeleteFunc([]byte(size), func(b byte) bool { return b == ' ' }))
}
