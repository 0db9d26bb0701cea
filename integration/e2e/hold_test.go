package e2e_test

import (
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

const healthLabel = "sagemaker.amazonaws.com/node-health-status"

// No pull begins on a node that is being checked, is about to be removed or is short of disk; what is ready stays ready, and
// its label too. Under disk pressure nothing is pinned.
func TestHold(t *testing.T) {
	c := newCluster(t)
	m := c.joinMachine(t, "held", labels{healthLabel: "Unschedulable"})
	there, missing := m.push(t, "there"), m.push(t, "missing")
	m.crictl(t, "pull", there.reference)
	m.configure(t, there.entry, missing.entry)
	o := m.observe(t)
	a := m.start(t)
	o.says(t, 0, said(false, there))
	waits := func(reason cri.Reason) func(status.Snapshot) bool {
		return func(s status.Snapshot) bool {
			i, _ := s.Image("missing")
			j, _ := s.Image("there")
			return i.Phase == cri.PhaseWaiting && i.Reason == reason && i.Message != "" && j.Phase == cri.PhaseReady
		}
	}
	a.until(t, "it waits for a healthy node", waits(cri.ReasonNodeUnhealthy))
	c.taint(t, m.name, "karpenter.sh/disrupted")
	c.label(t, m.name, labels{healthLabel: "Schedulable"})
	a.until(t, "it waits for a node that stays", waits(cri.ReasonNodeLeaving))
	c.pressure(t, m.name, corev1.ConditionTrue)
	c.taint(t, m.name)
	a.until(t, "it waits for room", func(s status.Snapshot) bool {
		i, _ := s.Image("there")
		return waits(cri.ReasonDiskPressure)(s) && !i.Pinned
	})
	m.untouchedBlobs(t, missing)
	c.pressure(t, m.name, corev1.ConditionFalse)
	o.says(t, 0, said(true, there, missing))
	a.until(t, "both are pinned", func(s status.Snapshot) bool {
		i, _ := s.Image("there")
		j, _ := s.Image("missing")
		return i.Pinned && j.Pinned
	})
}

// untouchedBlobs wants that nothing of an image's layers was fetched.
func (m *machine) untouchedBlobs(t *testing.T, i image) {
	t.Helper()
	for _, l := range i.Layers {
		if sent := m.reg.Served(l.Digest); sent > 0 {
			t.Errorf("%d bytes of layer %s were fetched", sent, l.Digest)
		}
	}
}

// taint gives a Node just these taints.
func (c *cluster) taint(t *testing.T, name string, keys ...string) {
	t.Helper()
	taints := []string{}
	for _, key := range keys {
		taints = append(taints, `{"key":"`+key+`","effect":"NoSchedule"}`)
	}
	body := `{"spec":{"taints":[` + strings.Join(taints, ",") + `]}}`
	if _, err := c.client.CoreV1().Nodes().Patch(deadline(t), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// pressure sets the condition as the kubelet does.
func (c *cluster) pressure(t *testing.T, name string, is corev1.ConditionStatus) {
	t.Helper()
	n := c.node(t, name)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: is, Reason: "Test", LastTransitionTime: metav1.Now()}}
	if _, err := c.client.CoreV1().Nodes().UpdateStatus(deadline(t), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Cleanup takes our labels off the Node, and nothing else; a second time there is nothing to do, and a Node that is gone
// is none either.
func TestCleanup(t *testing.T) {
	c := newCluster(t)
	m := c.joinMachine(t, "left", labels{"example.com/other": "stays"})
	i := m.push(t, "a")
	m.configure(t, i.entry)
	o := m.observe(t)
	a := m.start(t)
	o.says(t, 0, said(true, i))
	a.stop(t)
	clean := func(flags ...string) string {
		t.Helper()
		path, err := harness.Binary("prewarm")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(deadline(t), path, append([]string{
			"cleanup", "--node-name=" + m.name, "--kubeconfig=" + c.Kubeconfig(), "--runtime-endpoint=" + m.Endpoint(),
		}, flags...)...)
		cmd.Env = []string{}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if out := clean("--dry-run"); !strings.Contains(out, "would remove from node/"+m.name+" label prewarm.dev/image-ready") || len(ours(c.node(t, m.name).Labels)) != 2 {
		t.Errorf("--dry-run: %s", out)
	}
	if out := clean(); !strings.Contains(out, "removed from node/"+m.name+" label prewarm.dev/image-ready") || !strings.Contains(out, "unpinned") {
		t.Errorf("cleanup: %s", out)
	}
	n := c.node(t, m.name)
	if left := ours(n.Labels); len(left) > 0 || n.Labels["example.com/other"] != "stays" {
		t.Errorf("labels afterwards: %v", n.Labels)
	}
	if out := clean(); out != "nothing of prewarm is here\n" {
		t.Errorf("again: %s", out)
	}
	if err := c.client.CoreV1().Nodes().Delete(deadline(t), m.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if out := clean(); out != "nothing of prewarm is here\n" {
		t.Errorf("without a Node: %s", out)
	}
}
