package agent

import (
	"context"
	"iter"

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
	state := node.State{Readiness: node.Readiness(s.Readiness())}
	if !s.Configured {
		return state
	}
	state.Images = make(map[string]node.Image, len(s.Images))
	for _, i := range s.Images {
		state.Images[i.Image] = node.Image{Readiness: node.Readiness(i.Readiness()), Digest: i.Digest}
	}
	return state
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
