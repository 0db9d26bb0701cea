package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// table aligns columns by two blanks.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// Results writes a table of what became of each reference. Where it does not fit into width cells, reasons and messages
// stand below their rows; 0 means that everything fits.
func Results(w io.Writer, results []Result, width int) error {
	failed := slices.ContainsFunc(results, func(r Result) bool { return r.Err != nil })
	lines := resultRows(results, failed)
	if width > 0 && slices.ContainsFunc(lines, func(l string) bool { return cells(l) > width }) {
		lines = resultRows(results, false)
		for i, r := range slices.Backward(results) {
			if r.Progress.Reason != "" {
				lines = slices.Insert(lines, i+2, fmt.Sprintf("  %s: %s", r.Progress.Reason, r.Progress.Message))
			}
		}
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// resultRows draws the table, with or without the columns of what failed.
func resultRows(results []Result, failed bool) []string {
	var b strings.Builder
	t := table(&b)
	row := func(cells ...string) {
		if !failed {
			cells = cells[:5]
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("REFERENCE", "RESULT", "DIGEST", "SIZE", "TIME", "REASON", "MESSAGE")
	for _, r := range results {
		p := r.Progress
		size, time, message := "", "", ""
		if p.Digest != "" {
			size = Size(p.Bytes.Total)
		}
		if r.Took > 0 {
			time = took(r.Took)
		}
		if r.Err != nil {
			message = p.Message
		}
		row(p.Reference, string(r.Outcome), dash(short(p.Digest)), dash(size), dash(time), dash(string(p.Reason)), dash(message))
	}
	_ = t.Flush() // a strings.Builder takes everything
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// dash stands where there is nothing, so that every row has as many columns.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
