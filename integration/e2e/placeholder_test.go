package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// placeholders is the namespace of placeholder pods.
const placeholders = "overprovisioning"

// placeholder creates a placeholder pod that is bound to a Node, as a scheduler would have it.
func (c *cluster) placeholder(t *testing.T, name, nodeName string, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: placeholders, Labels: labels{"app": "spaces-placeholder", "type": "cpu"}},
		Spec: corev1.PodSpec{
			NodeName: nodeName, Containers: []corev1.Container{{Name: "pause", Image: "registry.example/pause:1"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: node.GateImageReady}},
		},
	}
	for _, how := range change {
		how(p)
	}
	p, err := c.client.CoreV1().Pods(p.Namespace).Create(deadline(t), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// startsWith puts taints on a Node, after those it has.
func (c *cluster) startsWith(t *testing.T, name string, taints ...corev1.Taint) {
	t.Helper()
	n := c.node(t, name)
	n.Spec.Taints = append(n.Spec.Taints, taints...)
	if _, err := c.client.CoreV1().Nodes().Update(deadline(t), n, metav1.UpdateOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
}

// gateOf is the condition that opens a pod's readiness gate; nil where there is none.
func gateOf(p *corev1.Pod) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == node.GateImageReady {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// marked waits until a pod is marked as on a warm node, or not, and gives it.
func (c *cluster) marked(t *testing.T, p *corev1.Pod, warm bool) *corev1.Pod {
	t.Helper()
	want := corev1.ConditionFalse
	if warm {
		want = corev1.ConditionTrue
	}
	var now *corev1.Pod
	harness.Eventually(t, fmt.Sprintf("pod %s is marked: %v", p.Name, warm), func() bool {
		var err error
		now, err = c.client.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		gate := gateOf(now)
		return gate != nil && gate.Status == want && (now.Labels[node.LabelWarm] == "true") == warm
	})
	return now
}

// told waits for an event about a Node and gives the newest of its reason.
func (c *cluster) told(t *testing.T, name, reason string) eventsv1.Event {
	t.Helper()
	var found []eventsv1.Event
	harness.Eventually(t, "there is an event "+reason+" about Node "+name, func() bool {
		list, err := c.client.EventsV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		found = slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason != reason || e.Regarding.Kind != "Node" || e.Regarding.Name != name
		})
		return len(found) > 0
	})
	return slices.MaxFunc(found, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
}

// The gate and the label of a placeholder follow the images of its node; nothing else of it changes, and no other pod does.
func TestPlaceholders(t *testing.T) {
	c := newCluster(t)
	m := c.joinMachine(t, "holds", nil)
	c.createNode(t, "other", nil)
	i := m.push(t, "a")
	m.configure(t, i.entry)
	// The agent works before there is a namespace with placeholders, and sees it when it comes.
	o := m.observe(t)
	a := m.start(t)
	o.says(t, 0, said(true, i))
	for _, name := range []string{placeholders, "elsewhere"} {
		if _, err := c.client.CoreV1().Namespaces().Create(deadline(t), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	strangers := []*corev1.Pod{
		c.placeholder(t, "other-node", "other"),
		c.placeholder(t, "unbound", ""),
		c.placeholder(t, "no-gate", m.name, func(p *corev1.Pod) { p.Spec.ReadinessGates = nil }),
		c.placeholder(t, "other-labels", m.name, func(p *corev1.Pod) { p.Labels = labels{"app": "other"} }),
		c.placeholder(t, "other-namespace", m.name, func(p *corev1.Pod) { p.Namespace = "elsewhere" }),
	}
	ended := c.placeholder(t, "ended", m.name, func(p *corev1.Pod) { p.Spec.ReadinessGates = nil; p.Labels = nil })
	c.patchPod(t, ended, "status", `{"status":{"phase":"Succeeded"}}`)

	first := c.placeholder(t, "first", m.name)
	began := time.Now()
	warm := c.marked(t, first, true)
	t.Logf("placeholder created → gate open and label there: %v", time.Since(began))
	c.patchPod(t, first, "status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`) // the kubelet's
	second := c.placeholder(t, "second", m.name)
	c.marked(t, second, true)

	m.reg.Inject(harness.GetBlob(i.Layers[0].Digest), harness.Status(503))
	m.reg.Inject(harness.Match{}, harness.Status(503))
	began = time.Now()
	m.crictl(t, "rmi", i.reference)
	cold := c.marked(t, first, false)
	took := time.Since(began)
	t.Logf("crictl rmi → gate closed and label gone: %v; the command itself is in it", took)
	if took > gone {
		t.Errorf("the gate was closed after %v, want at most %v", took, gone)
	}
	c.marked(t, second, false)

	want := first.DeepCopy()
	want.Status.Conditions = append([]corev1.PodCondition{}, corev1.PodCondition{Type: "Ready", Status: "True"}, *gateOf(cold))
	byType := cmpopts.SortSlices(func(a, b corev1.PodCondition) bool { return a.Type < b.Type })
	if d := cmp.Diff(want, cold, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "ManagedFields"), byType); d != "" {
		t.Errorf("the pod is otherwise than before (-want +got):\n%s", d)
	}
	if gateOf(warm).LastTransitionTime.IsZero() {
		t.Error("the gate has no time of transition")
	}
	for _, p := range strangers {
		now, err := c.client.CoreV1().Pods(p.Namespace).Get(deadline(t), p.Name, metav1.GetOptions{})
		if d := cmp.Diff(p, now); err != nil || d != "" {
			t.Errorf("pod %s, which is none of ours, has changed (%v):\n%s", p.Name, err, d)
		}
	}
	// A pod of the same name is another pod.
	none := int64(0)
	if err := c.client.CoreV1().Pods(placeholders).Delete(deadline(t), first.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		t.Fatal(err)
	}
	again := c.placeholder(t, "first", m.name)
	if now := c.marked(t, again, false); now.UID != again.UID {
		t.Errorf("marked is %s, want %s", now.UID, again.UID)
	}
	if n := a.writesOf(t, "pod/status"); n != 5 {
		t.Errorf("%d writes of gates, want 5: two open, two close, one closed from the beginning", n)
	}
	if n := a.writesOf(t, "pod"); n != 4 {
		t.Errorf("%d writes of labels, want 4", n)
	}
}

// patchPod changes a pod as somebody else does.
func (c *cluster) patchPod(t *testing.T, p *corev1.Pod, subresource, body string) {
	t.Helper()
	_, err := c.client.CoreV1().Pods(p.Namespace).Patch(deadline(t), p.Name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, subresource)
	if err != nil {
		t.Fatal(err)
	}
}

// The condition tells why, without a write for each try, and events tell the same with a count.
func TestConditionAndEvents(t *testing.T) {
	c := newCluster(t)
	m := c.joinMachine(t, "tells", nil)
	i := m.push(t, "a")
	m.configure(t, i.entry)
	allow := m.reg.Inject(harness.Match{}, harness.Status(403))
	o := m.observe(t)
	a := m.start(t)
	o.conditioned(t, 0, corev1.ConditionFalse, "Unauthorized")
	e := c.told(t, m.name, "Unauthorized")
	if e.Type != corev1.EventTypeWarning || !strings.Contains(e.Note, i.reference) || e.Regarding.UID != c.node(t, m.name).UID || e.ReportingInstance != m.name {
		t.Errorf("%+v", e)
	}
	allow()
	if err := a.Stop(); err != nil { // the next try is minutes away
		t.Fatal(err)
	}
	m.start(t)
	ready := o.conditioned(t, 0, corev1.ConditionTrue, node.ConditionReady)
	if s := c.told(t, m.name, "Pulled"); s.Type != corev1.EventTypeNormal || !strings.Contains(s.Note, "bytes fetched in") {
		t.Errorf("%+v", s)
	}
	if c := ready.condition(); c.LastTransitionTime.IsZero() || c.LastHeartbeatTime.IsZero() || !strings.Contains(c.Message, "1") {
		t.Errorf("%+v", c)
	}
	m.crictl(t, "rmi", i.reference)
	if s := c.told(t, m.name, "ImageLost"); s.Type != corev1.EventTypeWarning {
		t.Errorf("%+v", s)
	}
	statuses := map[string]bool{}
	all, _ := o.all()
	for _, s := range all {
		if c := s.condition(); c != nil {
			text, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			statuses[string(text)] = true
		}
	}
	if n := len(statuses); n > 6 {
		t.Errorf("the condition had %d values: %v", n, slices.Sorted(maps.Keys(statuses)))
	}
}

// taintsOf are the taints of a Node, but for the one with which the API server creates it.
func taintsOf(n *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
}

// only is true of a Node that has just these taints.
func only(taints ...corev1.Taint) func(sight) bool {
	return func(s sight) bool { return cmp.Equal(taintsOf(s.node), taints) }
}

// The startup taint goes when the images are there, and others' taints stay; where the images cannot be had it goes in the end,
// with an event, and without the label.
func TestStartupTaint(t *testing.T) {
	c := newCluster(t)
	ours := corev1.Taint{Key: node.TaintKey, Effect: node.TaintEffect}
	other := corev1.Taint{Key: "example.com/reserved", Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	t.Run("goes once the node is ready and registered", func(t *testing.T) {
		m := c.joinMachine(t, "starts", labels{"karpenter.sh/nodepool": "spaces"})
		c.startsWith(t, m.name, other, ours)
		i := m.push(t, "a")
		m.configure(t, i.entry)
		o := m.observe(t)
		m.start(t)
		o.says(t, 0, said(true, i))
		o.quiet(t, settled)
		if d := cmp.Diff([]corev1.Taint{other, ours}, taintsOf(c.node(t, m.name))); d != "" {
			t.Errorf("before Karpenter has registered the node:\n%s", d)
		}
		skip := o.count()
		c.label(t, m.name, labels{"karpenter.sh/registered": "true"})
		o.first(t, skip, "have lost our taint", only(other))
		skip = o.count()
		c.startsWith(t, m.name, ours) // as Karpenter does when it was slower than the agent
		o.first(t, skip+1, "have lost it again", only(other))
	})
	t.Run("goes in the end though there is no image", func(t *testing.T) {
		m := c.joinMachine(t, "gives-up", nil)
		c.startsWith(t, m.name, ours, other)
		i := m.push(t, "a")
		m.reg.Inject(harness.Match{}, harness.Status(503))
		m.writeConfig(t, fmt.Sprintf("apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\nstartupTaint: {failOpenAfter: 1s}\n"+
			"images: [{name: a, reference: %q}]\n", i.reference))
		o := m.observe(t)
		began := time.Now()
		a := m.start(t)
		s := o.firstWithin(t, 90*time.Second, 0, "have lost our taint", only(other))
		if took := s.at.Sub(began); took < 50*time.Second {
			t.Errorf("it was given up after %v: an agent that has just started has a minute to look", took)
		}
		if len(s.ours()) > 0 {
			t.Errorf("the labels say %v", s.ours())
		}
		if e := c.told(t, m.name, node.EventFailedOpen); e.Type != corev1.EventTypeWarning || !strings.Contains(e.Note, i.reference) {
			t.Errorf("%+v", e)
		}
		a.answers(t, "/metrics", 200, "prewarm_failed_open_total 1")
	})
}
