package view

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/prewarm-dev/prewarm/cri"
)

// refresh is the time between two frames.
const refresh = 200 * time.Millisecond

// Bars shows pulls on a terminal: bars while an image is pulled, one line once it has ended.
type Bars struct {
	container *mpb.Progress
	bar       *mpb.Bar
	size      SizeFunc
	color     bool
	images    int

	mu    sync.Mutex
	ended int
	// shown is what the frame shows, nil between two images; since is when its phase began.
	shown *cri.Progress
	since time.Time
}

// NewBars draws on out, which is a terminal of the given size, for a command of so many images. Close ends it.
func NewBars(out io.Writer, size SizeFunc, color bool, images int) (*Bars, error) {
	b := &Bars{size: size, color: color, images: images}
	b.container = mpb.New(
		mpb.WithConsoleWriter(&console{out: out, size: size}),
		mpb.WithRefreshRate(refresh),
	)
	bar, err := b.container.Add(0, mpb.BarFillerFunc(b.fill), mpb.BarFillerTrim())
	if err != nil {
		return nil, fmt.Errorf("progress bars: %w", err)
	}
	b.bar = bar
	return b, nil
}

// Show takes the progress of the image that is being pulled.
func (b *Bars) Show(p cri.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown == nil || b.shown.Phase != p.Phase {
		b.since = time.Now()
	}
	b.shown = &p
}

// End puts the result of an image in the place of its bars.
func (b *Bars) End(r Result) {
	b.mu.Lock()
	b.ended++
	b.shown = nil
	label := b.label(b.ended)
	b.mu.Unlock()
	width, _ := b.size.measure()
	_, _ = io.WriteString(b, label+Summary(r, width-len(label), b.color)+"\n") // Close tells
}

// Write puts lines above the bars: those of a log, for example.
func (b *Bars) Write(p []byte) (int, error) { return b.container.Write(p) }

// Close removes the bars; the error is the first one in writing to the terminal.
func (b *Bars) Close() error {
	b.bar.Abort(true)
	b.container.Wait()
	return b.container.Error
}

// fill draws the frame into what mpb thinks is one bar.
func (b *Bars) fill(w io.Writer, _ decor.Statistics) error {
	width, height := b.size.measure()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown == nil {
		return nil
	}
	lines := Frame(*b.shown, Canvas{
		Width: width, Height: height, Color: b.color, Now: time.Now(), Since: b.since, Label: b.label(b.ended + 1),
	})
	_, err := io.WriteString(w, strings.Join(lines, "\n"))
	return err
}

// label numbers the images of a command that has several.
func (b *Bars) label(n int) string {
	if b.images < 2 {
		return ""
	}
	return fmt.Sprintf("[%d/%d] ", n, b.images)
}

// Summary says in one line of a terminal of so many cells how an image ended; the digest is left out where it does not fit.
func Summary(r Result, width int, color bool) string {
	p := r.Progress
	var rest []string
	switch r.Outcome {
	case Pulled:
		rest = []string{short(p.Digest), fmt.Sprintf("%s, %s in %s", Size(p.Bytes.Total), fetchedOf(p), took(r.Took))}
	case Present:
		rest = []string{short(p.Digest), Size(p.Bytes.Total)}
	case Failed:
		rest = []string{string(p.Reason)}
	case NotTried:
	}
	line := func(word string) string { return strings.Join(append([]string{p.Reference, word}, rest...), "  ") }
	if len(rest) > 1 && cells(line(string(r.Outcome))) > width {
		rest = rest[1:]
	}
	if color {
		return line(paint(string(r.Outcome)))
	}
	return line(string(r.Outcome))
}

// fetchedOf says how much was fetched; where the runtime tells no bytes, nothing is claimed.
func fetchedOf(p cri.Progress) string {
	if p.Detail == cri.DetailUnavailable {
		return "bytes unknown"
	}
	return Size(p.Bytes.Fetched) + " fetched"
}
