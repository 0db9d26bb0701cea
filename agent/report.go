package agent

import (
	"context"
	"iter"
	"time"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// NodeStates gives what the Node is to say now, and then after each change, until ctx ends.
func NodeStates(ctx context.Context, store *status.Store) iter.Seq[node.State] {
	return func(yield func(node.State) bool) {
		for s := range store.Watch(ctx) {
			if !yield(NodeState(s)) {
				return
			}
		}
	}
}

// NodeState picks from the agent's state what the Node is to say.
func NodeState(s status.Snapshot) node.State {
	state := node.State{Readiness: node.Readiness(s.Readiness()), FailOpenAfter: time.Duration(s.Configuration.FailOpenAfterSeconds * float64(time.Second))}
	if !s.Configured {
		return state
	}
	state.Images = make(map[string]node.Image, len(s.Images))
	for _, i := range s.Images {
		image := node.Image{Readiness: node.Readiness(i.Readiness()), Required: i.Required, Digest: i.Digest}
		if failing(i) {
			image.Reason, image.Message = string(i.Reason), i.Message
		}
		state.Images[i.Image] = image
	}
	return state
}

// failing reports whether an image needs somebody's attention: it has failed, or waits for something other than its turn.
func failing(i status.ImageStatus) bool {
	return i.Phase == cri.PhaseFailed || i.Phase == cri.PhaseWaiting && i.Reason != cri.ReasonQueued
}

// NodeFacts gives what decides which images the Node needs, and its changes, until ctx ends. An accelerator that is set
// is taken instead of what the Node lets one conclude.
func NodeFacts(ctx context.Context, facts <-chan node.Facts, accelerator config.Accelerator) <-chan config.NodeFacts {
	out := make(chan config.NodeFacts)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case f := <-facts:
				next := config.NodeFacts{
					Labels: f.Labels, Accelerator: accelerator, Hold: config.Hold{Reason: cri.Reason(f.Hold.Reason), Message: f.Hold.Message},
					Kubelet: config.Thresholds(f.Kubelet),
				}
				if accelerator == "" {
					next.Accelerator = config.DetectAccelerator(f.Labels, f.Resources)
				}
				select {
				case out <- next:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out
}
