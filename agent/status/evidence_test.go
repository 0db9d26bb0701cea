package status

import (
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
)

// step is a report of the agent's loop, and what is known of the node after it.
type step struct {
	phase  cri.Phase
	reason cri.Reason
	want   Readiness
}

// TestEvidence follows the reports of the agent's loop: a label that is on the Node stays while the node is "unknown", and
// goes with "not ready".
func TestEvidence(t *testing.T) {
	t.Parallel()
	cases := map[string][]step{
		"the agent restarts and all is there": {
			{cri.PhaseResolving, "", Unknown},
			{cri.PhaseVerifying, "", Unknown},
			{cri.PhaseReady, "", Ready},
		},
		"the node restarts and nothing is there": {
			{cri.PhaseResolving, "", Unknown},
			{cri.PhaseResolving, cri.ReasonNotPresent, NotReady},
			{cri.PhaseWaiting, cri.ReasonQueued, NotReady},
			{cri.PhasePulling, "", NotReady},
			{cri.PhaseUnpacking, "", NotReady},
			{cri.PhaseVerifying, "", NotReady},
			{cri.PhaseReady, "", Ready},
		},
		"the same, with a loop that does not say why it goes on": {
			{cri.PhaseResolving, "", Unknown},
			{cri.PhaseWaiting, cri.ReasonQueued, NotReady},
		},
		"not there, and the registry is away": {
			{cri.PhaseResolving, "", Unknown},
			{cri.PhaseFailed, cri.ReasonRegistryUnavailable, NotReady},
			{cri.PhaseResolving, "", NotReady},
		},
		"the agent restarts while the runtime is away": {
			{cri.PhaseResolving, "", Unknown},
			{cri.PhaseFailed, cri.ReasonRuntimeUnavailable, Unknown},
			{cri.PhaseResolving, "", Unknown},
			{cri.PhaseFailed, cri.ReasonPermissionDenied, Unknown},
			{cri.PhaseResolving, "", Unknown},
			{cri.PhaseVerifying, "", Unknown},
			{cri.PhaseReady, "", Ready},
		},
		"stopped before it has looked": {
			{cri.PhaseResolving, "", Unknown},
			{cri.PhaseFailed, cri.ReasonCanceled, Unknown},
		},
		"lost, and the runtime goes away": {
			{cri.PhaseResolving, "", Unknown},
			{cri.PhaseVerifying, "", Unknown},
			{cri.PhaseReady, "", Ready},
			{cri.PhaseLost, cri.ReasonNotPresent, NotReady},
			{cri.PhaseResolving, "", NotReady},
			{cri.PhaseFailed, cri.ReasonRuntimeUnavailable, NotReady},
		},
		"its entry changes, and it is there": {
			{cri.PhaseResolving, "", Unknown},
			{cri.PhaseVerifying, "", Unknown},
			{cri.PhaseReady, "", Ready},
			{cri.PhaseResolving, "", Unknown},
			{cri.PhaseVerifying, "", Unknown},
			{cri.PhaseReady, "", Ready},
		},
		"its entry changes while it is pulled": {
			{cri.PhaseResolving, "", Unknown},
			{cri.PhasePulling, "", NotReady},
		},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := configured(t, entry(t, "a", "reg.example/a:1"))
			if got := s.Get().Readiness(); got != Unknown {
				t.Fatalf("before the first report: %q", got)
			}
			for i, step := range steps {
				reach(t, s, "a", step.phase, step.reason)
				now := s.Get()
				if got := now.Readiness(); got != step.want {
					t.Fatalf("step %d (%s %s): got %q, want %q", i, step.phase, step.reason, got, step.want)
				}
				if now.Ready != (step.want == Ready) {
					t.Fatalf("step %d (%s): ready is %v", i, step.phase, now.Ready)
				}
			}
		})
	}
}
