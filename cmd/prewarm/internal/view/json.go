package view

import (
	"encoding/json"
	"io"

	"github.com/prewarm-dev/prewarm/cri"
)

// JSON shows pulls as JSON lines: one cri.Progress per change.
type JSON struct {
	enc *json.Encoder
	err error
}

// NewJSON writes to w.
func NewJSON(w io.Writer) *JSON { return &JSON{enc: encoder(w)} }

// Show writes a progress.
func (j *JSON) Show(p cri.Progress) {
	if err := j.enc.Encode(p); err != nil && j.err == nil {
		j.err = err
	}
}

// End writes the last progress of an image. An image that was not tried has none.
func (j *JSON) End(r Result) {
	if r.Outcome != NotTried {
		j.Show(r.Progress)
	}
}

// Err gives the first error in writing.
func (j *JSON) Err() error { return j.err }

// Close gives it too.
func (j *JSON) Close() error { return j.err }

// encoder writes references as they are, not with HTML's escapes.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}
