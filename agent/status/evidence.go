package status

import (
	"github.com/prewarm-dev/prewarm/cri"
)

// known tells whether, after an image has come from a phase into its present state, the runtime has told whether it is
// there; before says whether it had until then.
//
// A label that an earlier agent left on the Node rests on this: it is taken off on evidence only, and an agent that has
// just started, or whose runtime does not answer, has none. Verifying is no evidence by itself, since an image that is
// there passes through it on its way from resolving to ready.
func known(before bool, from cri.Phase, p cri.Progress) bool {
	switch p.Phase {
	case cri.PhaseReady, cri.PhaseLost, cri.PhasePulling, cri.PhaseUnpacking:
		return true
	case cri.PhaseResolving:
		if from == cri.PhaseReady { // its entry has changed: it is looked at afresh
			before = false
		}
		return before || tellsAbsence(p.Reason)
	case cri.PhaseWaiting, cri.PhaseFailed:
		return before || !tellsNothing(p.Reason)
	case cri.PhaseVerifying:
		return before
	default:
		return false
	}
}

// tellsAbsence is true of the reasons that a look at the runtime gives.
func tellsAbsence(r cri.Reason) bool {
	return r == cri.ReasonNotPresent || r == cri.ReasonNotUnpacked || r == cri.ReasonOtherImage
}

// tellsNothing is true of the reasons that are about us or the runtime, not about the image.
func tellsNothing(r cri.Reason) bool {
	switch r {
	case cri.ReasonRuntimeUnavailable, cri.ReasonRuntimeUnsupported, cri.ReasonPermissionDenied, cri.ReasonCanceled, "":
		return true
	default:
		return false
	}
}
