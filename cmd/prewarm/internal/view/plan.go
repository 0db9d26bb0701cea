package view

import (
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/cri"
)

// Failure is a reference that failed, and why.
type Failure struct {
	Reference string     `json:"reference"`
	Reason    cri.Reason `json:"reason"`
	Message   string     `json:"message"`
	// Err is the error itself, for those who tell it alone.
	Err error `json:"-"`
}

// NewFailure tells an error beside its reference.
func NewFailure(reference string, err error) Failure {
	return Failure{Reference: reference, Reason: cri.ReasonOf(err), Message: Message(reference, err), Err: err}
}

// Plan is what pulls would do, and of which references that could not be found out.
type Plan struct {
	cri.Plan
	// FreeAfter estimates the free bytes of the disk once all is pulled; nil where the disk is unknown.
	FreeAfter *int64    `json:"diskFreeAfterEstimate,omitempty"`
	Errors    []Failure `json:"errors"`
}

// NewPlan adds to a plan what the disk would be like. Where the runtime discards unpacked layers, the compressed ones
// take no room in the end.
func NewPlan(p cri.Plan, info cri.Info, errors []Failure) Plan {
	plan := Plan{Plan: p, Errors: errors}
	if plan.Errors == nil {
		plan.Errors = []Failure{}
	}
	if p.Disk != nil {
		after := p.Disk.Free - p.Unpack
		if !info.DiscardsLayers {
			after -= p.Fetch
		}
		plan.FreeAfter = &after
	}
	return plan
}

// JSON writes the plan as one object.
func (p Plan) JSON(w io.Writer) error { return encoder(w).Encode(p) }

// Table writes the plan for people, for a terminal of width cells; 0 means that everything fits. What is estimated is
// marked with ~.
func (p Plan) Table(w io.Writer, width int) error {
	t := table{head: []string{"REFERENCE", columnDigest, "LAYERS", "SIZE", "FETCH", "UNPACK", columnReason, columnMessage}}
	planned := map[digest.Digest]bool{}
	for _, i := range p.Images {
		t.add(i.Image.Reference.String(), short(i.Image.Digest), layersOf(i, planned),
			Size(i.Image.Size()), Size(i.Fetch), estimate(i.Unpack), "", "")
	}
	for _, f := range p.Errors {
		t.add(f.Reference, "", "", "", "", "", string(f.Reason), f.Message)
	}
	if len(p.Images) > 1 {
		t.add("total", "", "", "", Size(p.Fetch), estimate(p.Unpack), "", "")
	}
	if err := t.write(w, width); err != nil {
		return err
	}
	_, err := io.WriteString(w, p.notes())
	return err
}

// notes says what the table has no columns for.
func (p Plan) notes() string {
	s := ""
	if p.Detail == cri.DetailUnavailable {
		s += "\nThe runtime does not tell which layers it has: those of an image that is not present all count as missing.\n"
	}
	if p.Disk == nil {
		return s + "\nDisk: unknown; the runtime does not name its file system, or it cannot be seen from here.\n"
	}
	s += fmt.Sprintf("\nDisk of %s: %s of %s free now, ~%s after", p.Disk.Path, Size(p.Disk.Free), Size(p.Disk.Total), Size(max(0, *p.FreeAfter)))
	if peak := p.Fetch + p.Unpack - p.Disk.Free; peak > 0 {
		return s + fmt.Sprintf("; too small by ~%s while layers and unpacked files are there at once.\n", Size(peak))
	}
	return s + ".\n"
}

// layersOf counts the layers of an image: those that are not unpacked, and those that an image before it in the plan,
// whose chain IDs are in planned, brings along.
func layersOf(i cri.ImagePlan, planned map[digest.Digest]bool) string {
	missing, shared := 0, 0
	for _, l := range i.Layers {
		switch {
		case l.State == cri.LayerDone:
		case planned[l.ChainID]:
			shared++
		default:
			missing++
		}
	}
	for _, l := range i.Layers {
		planned[l.ChainID] = true
	}
	if shared > 0 {
		return fmt.Sprintf("%d (%d missing, %d shared)", len(i.Layers), missing, shared)
	}
	return fmt.Sprintf("%d (%d missing)", len(i.Layers), missing)
}

func estimate(n int64) string {
	if n == 0 {
		return Size(0)
	}
	return "~" + Size(n)
}
