package node

import (
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startup is our taint, and the others are those of others.
func startup() corev1.Taint { return corev1.Taint{Key: TaintKey, Effect: TaintEffect} }

func csi() corev1.Taint {
	return corev1.Taint{Key: "csi.example/agent-not-ready", Effect: corev1.TaintEffectNoExecute}
}

func fresh() corev1.Taint {
	return corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}
}

func absent() corev1.Taint {
	return corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}
}

// tainted makes the Node of Karpenter with taints.
func (b *bench) tainted(registered bool, taints ...corev1.Taint) {
	b.create("u1", karpenterLabel+"=spaces")
	b.edit(func(n *corev1.Node) {
		n.CreationTimestamp = metav1.NewTime(time.Now())
		n.Spec.Taints = taints
		if registered {
			n.Labels[registeredLabel] = "true"
		}
	})
}

func (b *bench) wantTaints(t *testing.T, what string, want ...corev1.Taint) {
	t.Helper()
	b.fakeAPI.mu.Lock()
	defer b.fakeAPI.mu.Unlock()
	if !slices.Equal(b.node.Spec.Taints, want) {
		t.Errorf("%s: the taints are %v, want %v", what, b.node.Spec.Taints, want)
	}
}

func slow(s State) State {
	s.FailOpenAfter = 30 * time.Minute
	return s
}

// Only our taint goes, once the node is ready and registered; and again if it comes back, as it does when Karpenter registers
// a node that had lost it before.
func TestTheStartupTaintGoesWhenTheNodeIsReady(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.tainted(false, csi(), startup(), fresh())
		b.start(t)
		b.say(slow(lost()))
		b.settle()
		b.wantTaints(t, "not ready", csi(), startup(), fresh())
		b.say(slow(ready()))
		b.settle()
		b.wantTaints(t, "ready, and not registered", csi(), startup(), fresh())
		b.edit(func(n *corev1.Node) { n.Labels[registeredLabel] = "true" })
		b.settle()
		b.wantTaints(t, "ready and registered", csi(), fresh())
		b.edit(func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, startup()) })
		b.settle()
		b.wantTaints(t, "put on again by somebody", csi(), fresh())
		b.say(slow(lost()))
		b.pass(time.Hour)
		b.wantTaints(t, "lost", csi(), fresh()) // never put on by us
		if slices.Contains(b.writes, "failed open") {
			t.Error("the node was given up")
		}
	})
}

// Others take their taints off at the same time: what they did stays.
func TestTheStartupTaintAmongOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.tainted(true, csi(), startup(), fresh())
		b.start(t)
		raced := false
		b.forever("patch", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Content-Type") == "application/json-patch+json" && !raced {
				raced = true // between our look and our write
				b.edit(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{absent(), fresh(), startup()} })
			}
			b.patch(w, r)
		})
		b.say(slow(ready()))
		b.settle()
		b.wantTaints(t, "ready", absent(), fresh())
		if !raced {
			t.Error("there was no race")
		}
		b.wantProblems(t, "in all")
	})
}

func TestATaintThatIsNotOurs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		other := corev1.Taint{Key: TaintKey, Effect: corev1.TaintEffectPreferNoSchedule}
		b.tainted(true, csi(), other)
		b.start(t)
		b.say(slow(ready()))
		b.pass(time.Hour)
		b.wantTaints(t, "ready", csi(), other)
	})
}

// A node that cannot be warmed takes pods after a while: counted from its beginning, so that an agent that starts again and
// again does not put it off, and never before the agent has had a minute to look.
func TestFailOpen(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		age   time.Duration
		state State
		want  time.Duration // from the start of the agent; 0: never
	}{
		"a new node":           {0, slow(lost()), 30 * time.Minute},
		"a node of 10 minutes": {10 * time.Minute, slow(lost()), 20 * time.Minute},
		"an old node":          {time.Hour, slow(lost()), time.Minute},
		"nothing is known":     {0, slow(unknown()), 30 * time.Minute},
		"never":                {time.Hour, lost(), 0},
		"no configuration":     {time.Hour, State{FailOpenAfter: time.Minute}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				b := newBench(t)
				b.tainted(true, csi(), startup())
				b.pass(c.age)
				b.start(t)
				b.say(c.state)
				if c.want == 0 {
					b.pass(48 * time.Hour)
					b.wantTaints(t, "after two days", csi(), startup())
					return
				}
				b.pass(c.want - 2*time.Second)
				b.wantTaints(t, "before the time is up", csi(), startup())
				b.pass(4 * time.Second)
				b.wantTaints(t, "after it", csi())
				b.wantLabels(t, "after it", karpenterLabel+"=spaces", registeredLabel+"=true")
				if !slices.Contains(b.writes, "failed open") {
					t.Errorf("it was not counted: %v", b.writes)
				}
				if e := b.lastEvent(); e.Reason != "FailedOpen" || e.Type != corev1.EventTypeWarning || e.Regarding.UID != "u1" {
					t.Errorf("the last event is %+v", e)
				}
			})
		})
	}
}
