package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prewarm-dev/prewarm/cri"
)

// Canvas is what a frame is drawn on.
type Canvas struct {
	// Width and Height are those of the terminal, in cells. No line is wider than Width-1 and a frame has at most
	// Height-1 lines, since the cursor stands below it.
	Width, Height int
	Color         bool
	Now           time.Time
	// Since is when the image came into its phase.
	Since time.Time
	// Label stands before the reference, such as "[2/3] "; may be empty.
	Label string
}

const (
	// narrow is the width below which the total line goes without the phase, which the layers tell.
	narrow = 72
	// tiny is the width below which lines go without sizes.
	tiny = 52
	// What stands at the right of a bar, in cells: of a layer, of the total, and of the total where it is narrow.
	rightOfLayer, rightOfTotal, rightNarrow = len("1.23 GB 100%"), len("100% 1.23 GB/s 59m59s left"), len("100% 1.23 GB/s 59m59s")
)

// Frame draws the progress of one image: a line that names it, a bar per layer, and a total.
func Frame(p cri.Progress, c Canvas) []string {
	room := c.Height - 1
	var lines []string
	if room > 1 {
		lines = append(lines, c.header(p))
	}
	if room > 2 {
		lines = append(lines, c.layers(p.Layers, room-2)...)
	}
	return append(lines, c.total(p))
}

// header names the image. Of a reference that is too long the end stays: there is the tag.
func (c Canvas) header(p cri.Progress) string {
	name := []rune(p.Reference)
	room := max(1, c.Width-1-len(c.Label))
	if len(name) > room {
		return c.Label + "…" + string(name[len(name)-room+1:])
	}
	if d := "  " + short(p.Digest); p.Digest != "" && len(name)+len(d) <= room {
		return c.Label + p.Reference + d
	}
	return c.Label + p.Reference
}

// interest orders states by how much a person wants to see them where there is no room for all.
var interest = map[cri.LayerState]int{ //nolint:gochecknoglobals // a constant table
	cri.LayerUnpacking: 0, cri.LayerFetching: 1, cri.LayerFetched: 2, cri.LayerWaiting: 3, cri.LayerDone: 4,
}

// layers draws at most room lines: all layers, or those of most interest and a line that counts the others.
func (c Canvas) layers(layers []cri.LayerProgress, room int) []string {
	order := make([]int, len(layers))
	for i := range order {
		order[i] = i
	}
	var others []cri.LayerProgress
	if len(layers) > room {
		slices.SortStableFunc(order, func(a, b int) int {
			return cmp.Compare(interest[layers[a].State], interest[layers[b].State])
		})
		for _, i := range order[room-1:] {
			others = append(others, layers[i])
		}
		order = order[:room-1]
		slices.Sort(order)
	}
	lines := make([]string, 0, room)
	for _, i := range order {
		lines = append(lines, c.layer(layers[i]))
	}
	if len(others) > 0 {
		lines = append(lines, c.others(others))
	}
	return lines
}

func (c Canvas) others(layers []cri.LayerProgress) string {
	var counts []string
	for _, s := range []cri.LayerState{cri.LayerUnpacking, cri.LayerFetching, cri.LayerFetched, cri.LayerWaiting, cri.LayerDone} {
		if n := count(layers, s); n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return cut(fmt.Sprintf("  and %d more: %s", len(layers), strings.Join(counts, ", ")), c.Width-1)
}

// layer draws one layer. Unpacking has no percentage: its age shows that it is alive.
func (c Canvas) layer(l cri.LayerProgress) string {
	left := c.left(hex12(l.Digest), l.Size)
	b := cri.Bytes{Total: l.Size, Fetched: l.Fetched}
	reserved := rightOfTotal // bars of one length
	if c.Width < narrow {
		reserved = rightOfLayer
	}
	switch l.State {
	case cri.LayerFetching:
		return c.barred(left, string(l.State), b, reserved, fmt.Sprintf("%7s %3d%%", Size(l.Fetched), percent(b.Fraction())))
	case cri.LayerUnpacking:
		return c.line(left, string(l.State), Elapsed(c.Now.Sub(l.Since)))
	case cri.LayerDone:
		return c.line(left, string(l.State), "")
	default:
		return c.barred(left, string(l.State), b, reserved, "")
	}
}

// left is what the lines of layers and of the total begin with.
func (c Canvas) left(name string, size int64) string {
	if c.Width < tiny {
		return fmt.Sprintf("  %-12s  ", name)
	}
	return fmt.Sprintf("  %-12s  %7s  ", name, Size(size))
}

// total draws the sum: rate and time left while bytes are missing, then how many layers are unpacked.
func (c Canvas) total(p cri.Progress) string {
	age := Elapsed(c.Now.Sub(c.Since))
	left := c.left("total", p.Bytes.Total)
	word := string(p.Phase)
	switch {
	case len(p.Layers) > 0 && p.Phase == cri.PhasePulling:
		return c.fetching(p, left)
	case len(p.Layers) > 0:
		return c.line(left, word, fmt.Sprintf("%d of %d layers done, %s", count(p.Layers, cri.LayerDone), len(p.Layers), age))
	case p.Detail == cri.DetailUnavailable && p.Phase == cri.PhasePulling:
		return c.line(left, word, age+", the runtime shows no bytes")
	default:
		return c.line("  ", word, age)
	}
}

// fetching is the total while bytes are missing.
func (c Canvas) fetching(p cri.Progress, left string) string {
	right := fmt.Sprintf("%3d%%", percent(p.Bytes.Fraction()))
	if p.Rate > 0 {
		right += fmt.Sprintf(" %9s", Rate(p.Rate))
	}
	if p.ETASeconds != nil {
		right += fmt.Sprintf(" %6s", Elapsed(seconds(*p.ETASeconds)))
	}
	if c.Width < narrow {
		return c.barred(left, "", p.Bytes, rightNarrow, right)
	}
	if p.ETASeconds != nil {
		right += " left"
	}
	return c.barred(left, string(p.Phase), p.Bytes, rightOfTotal, right)
}

// barred is a line with a bar before its right part, where there is room for one beside the reserved cells.
func (c Canvas) barred(left, state string, b cri.Bytes, reserved int, right string) string {
	room := c.Width - 1 - len(left) - reserved - len(" ")
	if state != "" {
		room -= stateWidth
	}
	if drawn := bar(b, room); drawn != "" {
		right = drawn + " " + right
	}
	return c.line(left, state, right)
}

// stateWidth is that of the column of states, in cells.
const stateWidth = len("unpacking  ")

// line joins a left part, a state and a right part.
func (c Canvas) line(left, state, right string) string {
	word := ""
	if state != "" {
		word = fmt.Sprintf("%-*s", stateWidth, state)
	}
	plain := strings.TrimRight(cut(left+word+right, c.Width-1), " ")
	after, whole := strings.CutPrefix(plain, left+state)
	if !c.Color || !whole {
		return plain
	}
	return left + paint(state) + after
}

// cut shortens a text to width cells; what is lost is marked.
func cut(s string, width int) string {
	if n := utf8.RuneCountInString(s); n <= width || width < 1 {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// colors are those of the states and phases (ECMA-48 SGR).
var colors = map[string]string{ //nolint:gochecknoglobals // a constant table
	string(cri.LayerFetching): "36", string(cri.PhasePulling): "36",
	string(cri.LayerUnpacking): "33", string(cri.LayerFetched): "34",
	string(cri.LayerDone): "32", string(cri.PhaseReady): "32", string(Pulled): "32", string(Present): "32",
	string(cri.LayerWaiting): "2", string(cri.PhaseFailed): "31",
}

// paint colours a word that has a colour.
func paint(word string) string {
	if code := colors[word]; code != "" {
		return "\x1b[" + code + "m" + word + "\x1b[0m"
	}
	return word
}
