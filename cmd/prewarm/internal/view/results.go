package view

import "io"

// Results writes a table of what became of each reference, for a terminal of width cells; 0 means that everything fits.
func Results(w io.Writer, results []Result, width int) error {
	t := table{head: []string{"REFERENCE", "RESULT", columnDigest, "SIZE", "TIME", columnReason, columnMessage}}
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
		t.add(p.Reference, string(r.Outcome), short(p.Digest), size, time, string(p.Reason), message)
	}
	return t.write(w, width)
}
