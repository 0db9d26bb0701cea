package view

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/vbauerster/mpb/v8"
)

// The size of a terminal that does not tell its own, in cells.
const defaultWidth, defaultHeight = 80, 24

// SizeFunc measures a terminal, in cells.
type SizeFunc func() (width, height int, err error)

// measure gives the size, or the default where it is not known.
func (f SizeFunc) measure() (width, height int) {
	width, height, err := f()
	if err != nil || width <= 0 || height <= 0 {
		return defaultWidth, defaultHeight
	}
	return width, height
}

// console puts frames on a terminal, each over the one before it, and other lines above them.
//
// It stands in for mpb's own writer because that one counts lines as they were written: on a terminal that was made
// narrower since, they have been wrapped into more, and the upper ones would stay behind.
type console struct {
	out   io.Writer
	size  SizeFunc
	above bytes.Buffer
	frame bytes.Buffer
	// shown is the frame on the screen, and width that of the screen when it was put there.
	shown string
	width int
}

var _ mpb.ConsoleWriter = (*console)(nil)

// IsTerminal implements mpb.ConsoleWriter.
func (*console) IsTerminal() bool { return true }

// GetTermSize implements mpb.ConsoleWriter.
func (c *console) GetTermSize() (width, height int, err error) {
	width, height = c.size.measure()
	return width, height, nil
}

// Write takes lines that are to stand above the frame.
func (c *console) Write(p []byte) (int, error) { return c.above.Write(p) }

// ReadFrom takes the frame.
func (c *console) ReadFrom(r io.Reader) (int64, error) { return c.frame.ReadFrom(r) }

// Flush puts what it was given on the screen.
func (c *console) Flush(int) error {
	frame := strings.TrimLeft(c.frame.String(), "\n")
	c.frame.Reset()
	width, _ := c.size.measure()
	if c.above.Len() == 0 && frame == c.shown && width == c.width {
		return nil
	}
	erase := ""
	if n := rows(c.shown, width); n > 0 {
		erase = fmt.Sprintf("\r\x1b[%dA\x1b[J", n)
	}
	_, err := io.WriteString(c.out, erase+c.above.String()+frame)
	c.above.Reset()
	c.shown, c.width = frame, width
	return err
}

// rows counts the rows that lines take on a terminal which wraps what does not fit.
func rows(lines string, width int) int {
	n := 0
	for line := range strings.Lines(lines) {
		n += max(1, (cells(strings.TrimSuffix(line, "\n"))+width-1)/width)
	}
	return n
}

// cells counts the cells of a line, in which escape sequences take none.
func cells(line string) int {
	n := 0
	for line != "" {
		before, after, found := strings.Cut(line, "\x1b[")
		n += utf8.RuneCountInString(before)
		if !found {
			break
		}
		_, line, _ = strings.Cut(after, "m")
	}
	return n
}
