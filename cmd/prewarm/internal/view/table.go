package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// table has a row for each reference. The first column is the reference, and the last two are reason and message.
type table struct {
	head []string
	rows [][]string
}

// The columns that a table can do without.
const (
	columnDigest  = "DIGEST"
	columnReason  = "REASON"
	columnMessage = "MESSAGE"
)

// add adds a row; what is empty becomes a dash, so that every row has as many columns.
func (t *table) add(row ...string) {
	for i, cell := range row {
		if cell == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// write writes the table in the fullest form whose rows fit into width cells; 0 means that everything fits. In narrower
// forms reasons and messages stand below their rows, then there are no digests, and at last the reference has a line of
// its own above the rest of its row.
func (t *table) write(w io.Writer, width int) error {
	bare := t.without(columnReason, columnMessage)
	short := bare.without(columnDigest)
	lines := t.aligned()
	if !t.failed() {
		lines = bare.aligned()
	}
	if !fit(lines, width) {
		lines = bare.aligned()
		if !fit(lines, width) {
			lines = short.aligned()
		}
		if !fit(lines, width) {
			lines = short.stacked()
		}
		t.explain(lines)
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

func fit(lines []string, width int) bool {
	return width == 0 || !slices.ContainsFunc(lines, func(l string) bool { return cells(l) > width })
}

// failed reports whether any row has a reason.
func (t *table) failed() bool {
	return slices.ContainsFunc(t.rows, func(row []string) bool { return row[len(row)-2] != "-" })
}

// explain puts reasons and messages below the lines of their rows, the first of which is the head's.
func (t *table) explain(lines []string) {
	for i, row := range t.rows {
		if reason := row[len(row)-2]; reason != "-" {
			lines[i+1] += fmt.Sprintf("\n  %s: %s", reason, row[len(row)-1])
		}
	}
}

// without gives the table without some of its columns.
func (t *table) without(columns ...string) *table {
	keep := func(row []string) []string {
		var kept []string
		for i, cell := range row {
			if !slices.Contains(columns, t.head[i]) {
				kept = append(kept, cell)
			}
		}
		return kept
	}
	less := &table{head: keep(t.head)}
	for _, row := range t.rows {
		less.rows = append(less.rows, keep(row))
	}
	return less
}

// aligned gives a line for the head and for each row, with columns two blanks apart.
func (t *table) aligned() []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// stacked gives for the head and for each row the first cell, and below it, indented, the others.
func (t *table) stacked() []string {
	lines := t.without(t.head[0]).aligned()
	for i, row := range append([][]string{t.head}, t.rows...) {
		lines[i] = row[0] + "\n  " + lines[i]
	}
	return lines
}
