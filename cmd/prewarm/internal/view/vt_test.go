package view

import (
	"strconv"
	"strings"
	"sync"
)

// vt is a terminal with a scrollback, which wraps long lines and wraps them anew when its width changes.
type vt struct {
	mu            sync.Mutex
	width, height int
	// rows are those of the scrollback and of the screen; wrapped marks those that go on in the next.
	rows    []string
	wrapped []bool
	row     int // of the cursor; the column is that of the end of what was written
	col     int
}

func newVT(width, height int) *vt {
	return &vt{width: width, height: height, rows: []string{""}, wrapped: []bool{false}}
}

func (v *vt) size() (width, height int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.width, v.height, nil
}

// Write interprets text, line ends, and the sequences for cursor up, erase below and colours.
func (v *vt) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for s := string(p); s != ""; {
		if seq, ok := strings.CutPrefix(s, "\x1b["); ok {
			end := strings.IndexFunc(seq, func(r rune) bool { return r >= '@' })
			v.control(seq[:end], seq[end])
			s = seq[end+1:]
			continue
		}
		r := []rune(s)[0]
		s = s[len(string(r)):]
		switch r {
		case '\n':
			v.col = 0
			v.down(false)
		case '\r':
			v.col = 0
		default:
			if v.col == v.width {
				v.col = 0
				v.down(true)
			}
			v.put(r)
		}
	}
	return len(p), nil
}

func (v *vt) put(r rune) {
	row := []rune(v.rows[v.row])
	if v.col < len(row) {
		row[v.col] = r
	} else {
		row = append(row, r)
	}
	v.rows[v.row] = string(row)
	v.col++
}

func (v *vt) down(wrapped bool) {
	v.wrapped[v.row] = wrapped
	v.row++
	if v.row == len(v.rows) {
		v.rows, v.wrapped = append(v.rows, ""), append(v.wrapped, false)
	}
}

func (v *vt) control(arg string, command byte) {
	switch command {
	case 'A':
		n, _ := strconv.Atoi(arg)
		v.row = max(v.row-n, len(v.rows)-v.height, 0) // not into the scrollback
	case 'J':
		v.rows[v.row] = string([]rune(v.rows[v.row])[:v.col])
		v.rows, v.wrapped = v.rows[:v.row+1], v.wrapped[:v.row+1]
	}
}

// resize wraps all lines anew, as most terminals do.
func (v *vt) resize(width, height int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var b strings.Builder
	for i, r := range v.rows {
		b.WriteString(r)
		if !v.wrapped[i] && i < len(v.rows)-1 {
			b.WriteByte('\n')
		}
	}
	anew := newVT(width, height)
	_, _ = anew.Write([]byte(b.String()))
	v.width, v.height, v.rows, v.wrapped, v.row, v.col = width, height, anew.rows, anew.wrapped, anew.row, anew.col
}

// text is all that was written and not erased, scrollback and screen.
func (v *vt) text() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Join(v.rows, "\n")
}

// top is the row of the scrollback at which the screen begins.
func (v *vt) top() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return max(0, len(v.rows)-v.height)
}
