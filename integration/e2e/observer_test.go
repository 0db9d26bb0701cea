package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/prewarm-dev/prewarm/agent/node"
)

// sight is a Node as a watch showed it, and when.
type sight struct {
	at time.Time
	// node is nil where the Node was deleted.
	node *corev1.Node
}

// ours are the labels that only the agent writes.
func (s sight) ours() labels {
	if s.node == nil {
		return nil
	}
	return ours(s.node.Labels)
}

// observer watches a Node as others see it, and keeps every state that it has had. It does not outlive the API server.
type observer struct {
	mu      sync.Mutex
	seen    []sight
	changed chan struct{}
}

// observe begins to watch the machine's Node.
func (m *machine) observe(t *testing.T) *observer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := m.cluster.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + m.name})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	o := &observer{changed: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range w.ResultChan() {
			n, ok := e.Object.(*corev1.Node)
			if !ok {
				return // an error: what is waited for does not come any more
			}
			if e.Type == watch.Deleted {
				n = nil
			}
			o.mu.Lock()
			o.seen = append(o.seen, sight{at: time.Now(), node: n})
			close(o.changed)
			o.changed = make(chan struct{})
			o.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		cancel()
		w.Stop()
		<-ended
	})
	return o
}

// all gives what was seen, and a channel that closes when there is more.
func (o *observer) all() ([]sight, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clip(o.seen), o.changed
}

// count is how many states were seen by now.
func (o *observer) count() int {
	all, _ := o.all()
	return len(all)
}

// first waits for the first state, of those after the first skip ones, that is as cond wants it.
func (o *observer) first(t *testing.T, skip int, what string, cond func(sight) bool) sight {
	t.Helper()
	return o.firstWithin(t, patience, skip, what, cond)
}

func (o *observer) firstWithin(t *testing.T, d time.Duration, skip int, what string, cond func(sight) bool) sight {
	t.Helper()
	ctx := within(t, d)
	for {
		all, changed := o.all()
		if i := slices.IndexFunc(all[skip:], cond); i >= 0 {
			return all[skip+i]
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("the Node was not seen to %s: %v\n%s", what, context.Cause(ctx), history(all))
		}
	}
}

// says waits until the agent's labels, of states after the first skip ones, are exactly these.
func (o *observer) says(t *testing.T, skip int, want labels) sight {
	t.Helper()
	return o.first(t, skip, fmt.Sprintf("say %v", want), func(s sight) bool { return s.node != nil && cmp.Equal(s.ours(), want) })
}

// lacks waits until a label is not there.
func (o *observer) lacks(t *testing.T, skip int, key string) sight {
	t.Helper()
	return o.first(t, skip, "lose "+key, func(s sight) bool {
		_, ok := s.ours()[key]
		return s.node != nil && !ok
	})
}

// condition is the agent's condition on the Node; nil where there is none.
func (s sight) condition() *corev1.NodeCondition {
	if s.node == nil {
		return nil
	}
	for i, c := range s.node.Status.Conditions {
		if c.Type == node.ConditionImagesReady {
			return &s.node.Status.Conditions[i]
		}
	}
	return nil
}

// conditioned waits for the first state, of those after the first skip ones, whose condition has this status and reason.
func (o *observer) conditioned(t *testing.T, skip int, status corev1.ConditionStatus, reason string) sight {
	t.Helper()
	return o.first(t, skip, fmt.Sprintf("have the condition %s %s", status, reason), func(s sight) bool {
		c := s.condition()
		return c != nil && c.Status == status && c.Reason == reason
	})
}

// quiet wants no change of the Node for a while, once its condition, if there is one, says what its label says.
func (o *observer) quiet(t *testing.T, d time.Duration) {
	t.Helper()
	all, _ := o.all()
	o.first(t, len(all)-1, "have a condition that says what the label says", func(s sight) bool {
		c := s.condition()
		return c == nil || (c.Status == corev1.ConditionTrue) == (s.ours()[node.LabelReady] != "")
	})
	before, changed := o.all()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
		all, _ := o.all()
		t.Errorf("the Node has changed where it should not:\n%s", history(all[len(before)-1:]))
	case <-t.Context().Done():
	}
}

// unchanged wants that the agent's labels were exactly these in every state after the first skip ones.
func (o *observer) unchanged(t *testing.T, skip int, want labels) {
	t.Helper()
	all, _ := o.all()
	for _, s := range all[skip:] {
		if diff := cmp.Diff(want, s.ours()); diff != "" {
			t.Fatalf("the labels have changed in between (-want +got):\n%s\n%s", diff, history(all))
		}
	}
}

// history has a line for each state.
func history(all []sight) string {
	var b strings.Builder
	for _, s := range all {
		fmt.Fprintf(&b, "%s %v\n", s.at.Format("05.000"), s.ours())
	}
	return b.String()
}
