package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// Packages that do not know each other use the same words.
func TestWordsAreTheSameOnBothSides(t *testing.T) {
	t.Parallel()
	for here, there := range map[cri.Reason]string{
		cri.ReasonDiskPressure: node.HoldDiskPressure, cri.ReasonNodeLeaving: node.HoldLeaving, cri.ReasonNodeUnhealthy: node.HoldUnhealthy,
	} {
		if string(here) != there {
			t.Errorf("reason %q is %q in package node", here, there)
		}
	}
	for here, there := range map[status.Readiness]node.Readiness{
		status.Unknown: node.Unknown, status.NotReady: node.NotReady, status.Ready: node.Ready,
	} {
		if string(here) != string(there) {
			t.Errorf("readiness %q is %q in package node", here, there)
		}
	}
}

func TestNodeStateSaysWhatIsKnown(t *testing.T) {
	t.Parallel()
	image := func(name string, phase cri.Phase, known, required bool) status.ImageStatus {
		return status.ImageStatus{
			Progress: cri.Progress{Image: name, Phase: phase, Digest: digest.FromString(name)}, Known: known, Required: required,
		}
	}
	if got := NodeState(status.Snapshot{}); got.Readiness != node.Unknown || got.Images != nil {
		t.Errorf("before the configuration: %+v, want nothing", got)
	}
	got := NodeState(status.Snapshot{Configured: true, Images: []status.ImageStatus{
		image("a", cri.PhaseReady, true, true), image("b", cri.PhasePulling, true, false), image("c", cri.PhaseResolving, false, false),
	}})
	want := node.State{Readiness: node.Ready, Images: map[string]node.Image{
		"a": {Readiness: node.Ready, Required: true, Digest: digest.FromString("a")},
		"b": {Readiness: node.NotReady, Digest: digest.FromString("b")},
		"c": {Readiness: node.Unknown, Digest: digest.FromString("c")},
	}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestNodeFacts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		in := make(chan node.Facts)
		gpu := node.Facts{
			Labels: map[string]string{config.LabelInstanceType: "ml.g5.xlarge"},
			Hold:   node.Hold{Reason: node.HoldLeaving, Message: "soon"},
		}
		seen, forced := NodeFacts(ctx, in, ""), NodeFacts(ctx, in, config.AcceleratorNone)
		in <- gpu
		in <- gpu
		for _, c := range []struct {
			out  <-chan config.NodeFacts
			want config.Accelerator
		}{{seen, config.AcceleratorNVIDIA}, {forced, config.AcceleratorNone}} {
			got := <-c.out
			want := config.NodeFacts{
				Labels: gpu.Labels, Accelerator: c.want, Hold: config.Hold{Reason: cri.ReasonNodeLeaving, Message: "soon"},
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		}
		in <- gpu
		stop()
		time.Sleep(time.Second) // both have ended, also the one whose facts nobody takes
	})
}
