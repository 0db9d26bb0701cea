package e2e_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

const (
	// visible is the time from an image's being ready to the label that others see.
	visible = 100 * time.Millisecond
	// gone is the time from the loss of an image to the label's being away for others.
	gone = time.Second
	// corrected is the time from the start of an agent to the end of labels that are not true, whatever the registry does.
	corrected = 5 * time.Second
)

func TestLabels(t *testing.T) {
	c := newCluster(t)
	t.Run("come with ready and go with a loss", func(t *testing.T) { labelsFollow(t, c) })
	t.Run("are all that is touched", func(t *testing.T) { labelsAlone(t, c) })
	t.Run("of a cold node are corrected", func(t *testing.T) { labelsCorrected(t, c) })
}

// labelsFollow measures how far the labels are behind the images.
func labelsFollow(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "follow", nil)
	var list []image
	var entries []entry
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		list = append(list, m.push(t, name))
		entries = append(entries, list[len(list)-1].entry)
	}
	m.configure(t, entries...)
	o := m.observe(t)
	a := m.start(t)
	all := said(true, list...)
	o.says(t, 0, all)
	s := a.until(t, "all is ready", func(s status.Snapshot) bool { return s.Ready })
	var behind []time.Duration
	for _, i := range list {
		is, _ := s.Image(i.name)
		at := o.first(t, 0, "have "+i.key(), func(s sight) bool { return s.ours()[i.key()] != "" }).at
		behind = append(behind, at.Sub(is.ReadyAt))
	}
	slices.Sort(behind)
	t.Logf("ready → label seen: %v", behind)
	if behind[0] < 0 || behind[len(behind)/2] > visible {
		t.Errorf("the labels came %v after the images were ready, want a median of at most %v and none before", behind, visible)
	}

	losses := []struct {
		what string
		of   image
		lose func()
	}{
		{"crictl rmi", list[0], func() { m.crictl(t, "rmi", list[0].reference) }},
		{"ctr snapshots rm", list[1], func() { m.removeTop(t, list[1]) }},
		{"ctr images rm", list[2], func() {
			if _, err := m.Ctr(deadline(t), "images", "rm", list[2].reference); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, l := range losses {
		skip := o.count()
		began := time.Now()
		l.lose()
		without := maps.Clone(all)
		delete(without, node.LabelReady)
		delete(without, l.of.key())
		took := o.says(t, skip, without).at.Sub(began)
		t.Logf("%s → labels gone: %v; the command itself is in it", l.what, took)
		if took > gone {
			t.Errorf("%s: the labels were gone after %v, want at most %v", l.what, took, gone)
		}
		took = o.says(t, skip+1, all).at.Sub(began)
		t.Logf("%s → pulled again, labels back: %v", l.what, took)
	}
}

// labelsAlone holds that nothing on the Node changes but our labels, and that they are known to be ours.
func labelsAlone(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "alone", labels{"example.com/pool": "spaces", "prewarm.dev/other": "kept", "kubernetes.io/hostname": "alone"})
	nodes := c.client.CoreV1().Nodes()
	n := c.node(t, m.name)
	n.Annotations = map[string]string{"example.com/owner": "somebody", "prewarm.dev/image-ready": "an annotation"}
	n.Spec.Taints = []corev1.Taint{
		{Key: "prewarm.dev/other", Effect: corev1.TaintEffectNoSchedule},
		{Key: "example.com/reserved", Value: "yes", Effect: corev1.TaintEffectNoExecute},
	}
	n, err := nodes.Update(deadline(t), n, metav1.UpdateOptions{FieldManager: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	n, err = nodes.UpdateStatus(deadline(t), n, metav1.UpdateOptions{FieldManager: "kubelet"})
	if err != nil {
		t.Fatal(err)
	}
	i := m.push(t, "a")
	m.configure(t, i.entry)
	o := m.observe(t)
	m.start(t)
	o.says(t, 0, said(true, i))
	skip := o.count()
	m.crictl(t, "rmi", i.reference)
	o.lacks(t, skip, i.key())
	back := o.says(t, skip+1, said(true, i))
	seen := o.first(t, skip+1, "have the labels and the condition", func(s sight) bool {
		c := s.condition()
		return !s.at.Before(back.at) && c != nil && c.Status == corev1.ConditionTrue
	})
	got := seen.node.DeepCopy()

	want := n.DeepCopy()
	maps.Copy(want.Labels, said(true, i))
	want.Status.Conditions = append([]corev1.NodeCondition{*seen.condition()}, want.Status.Conditions...)
	ignore := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ResourceVersion", "ManagedFields")
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("the Node is otherwise than before (-want +got):\n%s", diff)
	}
	var keys []string
	others := slices.DeleteFunc(slices.Clone(got.ManagedFields), func(f metav1.ManagedFieldsEntry) bool {
		if f.Manager != "prewarm" {
			return false
		}
		if f.Subresource == "status" {
			conditionOwned(t, f)
		} else {
			keys = append(keys, owned(t, f)...)
		}
		return true
	})
	if diff := cmp.Diff(n.ManagedFields, others); diff != "" {
		t.Errorf("others own other fields than before (-want +got):\n%s", diff)
	}
	slices.Sort(keys)
	if diff := cmp.Diff([]string{i.key(), node.LabelReady}, keys); diff != "" {
		t.Errorf("labels that are known to be ours (-want +got):\n%s", diff)
	}
}

// owned are the keys of the labels in an entry of managedFields, which must have nothing else.
func owned(t *testing.T, e metav1.ManagedFieldsEntry) []string {
	t.Helper()
	var fields map[string]map[string]map[string]any
	if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields); err != nil {
		t.Fatalf("%s: %v", e.FieldsV1, err)
	}
	if len(fields) != 1 || len(fields["f:metadata"]) != 1 {
		t.Errorf("we own other fields than labels: %s", e.FieldsV1)
	}
	var keys []string
	for key := range fields["f:metadata"]["f:labels"] {
		keys = append(keys, key[len("f:"):])
	}
	return keys
}

// conditionOwned wants nothing but our condition in an entry of managedFields.
func conditionOwned(t *testing.T, e metav1.ManagedFieldsEntry) {
	t.Helper()
	var fields map[string]map[string]map[string]any
	if err := json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields); err != nil {
		t.Fatalf("%s: %v", e.FieldsV1, err)
	}
	ours := fields["f:status"]["f:conditions"][`k:{"type":"`+node.ConditionImagesReady+`"}`]
	if len(fields) != 1 || len(fields["f:status"]) != 1 || len(fields["f:status"]["f:conditions"]) != 1 || ours == nil {
		t.Errorf("we own more of the status than our condition: %s", e.FieldsV1)
	}
}

// labelsCorrected holds that labels which are not true go as soon as it is known that they are not, and that one of an
// entry which is gone goes too; before the registry has sent anything.
func labelsCorrected(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "cold", labels{
		node.LabelReady: "true", node.LabelImagePrefix + "a": "0123456789ab", node.LabelImagePrefix + "gone": "0123456789ab",
		"example.com/pool": "spaces",
	})
	i := m.push(t, "a")
	m.configure(t, i.entry)
	release := make(chan struct{})
	m.reg.Inject(harness.Match{}, harness.Hold(release))
	o := m.observe(t)
	began := time.Now()
	m.start(t)
	if took := o.says(t, 0, labels{}).at.Sub(began); took > corrected {
		t.Errorf("labels that are not true were gone after %v, want at most %v after the start", took, corrected)
	}
	close(release)
	o.says(t, 0, said(true, i))
	if got := c.node(t, m.name).Labels["example.com/pool"]; got != "spaces" {
		t.Errorf("a label of somebody else is %q", got)
	}
}
