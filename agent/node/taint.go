package node

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// TaintKey is that of the startup taint with which a NodePool may hold a new node back until its images are there. The agent
	// takes it off and never puts it on.
	TaintKey = "prewarm.dev/image-not-ready"
	// TaintEffect is the effect of that taint; others under the same key are somebody else's.
	TaintEffect = corev1.TaintEffectNoSchedule
	// leastPatience is how long an agent that has just started waits in any case before it gives a node up: the images may be
	// there, and it has not looked yet.
	leastPatience = time.Minute
)

// karpenterLabel and registeredLabel are Karpenter's. Before it has registered a node it puts startup taints on again
// (karpenter, pkg/controllers/nodeclaim/lifecycle/registration.go), so nothing is done until then.
const (
	karpenterLabel  = "karpenter.sh/nodepool"
	registeredLabel = "karpenter.sh/registered"
)

// taintDue gives the removal of our taint where it is due: the node is ready, or it has been given up. The time tells when it
// will be given up, if nothing else happens before; zero where it will not, or there is no taint.
func (r *Reporter) taintDue(now time.Time) (*patch, time.Time) {
	p := taintRemoval(r.object)
	if p == nil || r.object.karpenter && !r.object.registered {
		return nil, time.Time{}
	}
	if r.state.Readiness != Ready {
		deadline := r.deadline()
		if deadline.IsZero() || now.Before(deadline) {
			return nil, deadline
		}
	}
	return p, time.Time{}
}

// taintRemoval takes our taint off a Node; nil where it has none. Only this one is removed, and only if it is still where it was
// seen: the list is replaced as a whole otherwise, and several agents of a new node take their taints off at the same time.
func taintRemoval(o *object) *patch {
	at := slices.IndexFunc(o.taints, func(t corev1.Taint) bool { return t.Key == TaintKey && t.Effect == TaintEffect })
	if at < 0 {
		return nil
	}
	path := fmt.Sprintf("/spec/taints/%d", at)
	return &patch{
		object: objectNode, kind: types.JSONPatchType, what: "taint " + TaintKey + ":" + string(TaintEffect) + "-",
		body: []map[string]any{
			{"op": "test", "path": "/metadata/uid", "value": o.uid},
			{"op": "test", "path": path, "value": o.taints[at]},
			{"op": "remove", "path": path},
		},
	}
}

// deadline is when the node is given up; zero for never, and as long as the configuration is not known. It counts from the
// Node's beginning, so that an agent that is restarted again and again does not put it off.
func (r *Reporter) deadline() time.Time {
	if r.state.Images == nil || r.state.FailOpenAfter <= 0 {
		return time.Time{}
	}
	deadline := r.object.created.Add(r.state.FailOpenAfter)
	if least := r.started.Add(leastPatience); deadline.Before(least) {
		deadline = least
	}
	return deadline
}
