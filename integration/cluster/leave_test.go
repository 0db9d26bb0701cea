package cluster_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// cleanup runs prewarm cleanup --cluster as the account of the Job that is shipped.
func (l *lab) cleanup(t *testing.T, flags ...string) string {
	t.Helper()
	path, err := harness.Binary("prewarm")
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.client.CoreV1().ServiceAccounts(system).CreateToken(within(t, patience), "prewarm-cleanup", unbound(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(within(t, patience), path, append([]string{"cleanup", "--cluster", "--kubeconfig=" + l.kubeconfig(t, r.Status.Token)}, flags...)...)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// Uninstalled in the documented order there is nothing left of what was installed, and nothing on Nodes and pods of others.
func TestLeaving(t *testing.T) {
	l := newWarmPool(t)
	before := l.inventory(t)
	names := []string{"overlays/shared-nodepool", "components/karpenter"}
	l.install(t, "", names...)
	l.fromZero(t, 2)
	l.warmAll(t)
	l.allWarm(t, 2)
	last := l.nodes(t)[1].Name
	l.kubectl(t, "taint", "node", last, node.TaintKey+"=:NoSchedule")
	l.until(t, "the taint is taken off", func() error {
		if hasTaint(l.nodes(t)[1], node.TaintKey) {
			return fmt.Errorf("it is there")
		}
		return nil
	})

	l.kubectl(t, "delete", "daemonset", "-n", system, "prewarm")
	for _, w := range l.agents {
		if err := w.agent.Stop(); err != nil {
			t.Error(err)
		}
	}
	l.kubectl(t, "taint", "node", last, node.TaintKey+"=:NoSchedule", "example.com/reserved=yes:NoSchedule")
	leave := filepath.Join(manifests(t), "cleanup")
	l.kubectl(t, "apply", "--server-side", "-k", leave)
	would := l.cleanup(t, "--dry-run")
	for _, want := range []string{"would remove from node/" + last + " taint " + node.TaintKey, "label " + node.LabelReady, "condition " + node.ConditionImagesReady, "label " + node.LabelWarm, "condition " + node.GateImageReady} {
		if !strings.Contains(would, want) {
			t.Errorf("--dry-run does not say %q:\n%s", want, would)
		}
	}
	if n := strings.Count(l.cleanup(t), "removed from "); n != strings.Count(would, "would remove from ") {
		t.Errorf("%d things were removed; before it said\n%s", n, would)
	}
	if out := l.cleanup(t); out != "nothing of prewarm is here\n" {
		t.Errorf("again: %s", out)
	}
	for _, n := range l.nodes(t) {
		for key := range n.Labels {
			if strings.Contains(key, "prewarm.dev") {
				t.Errorf("Node %s has label %s", n.Name, key)
			}
		}
		for _, c := range n.Status.Conditions {
			if strings.Contains(string(c.Type), "prewarm.dev") {
				t.Errorf("Node %s has condition %s", n.Name, c.Type)
			}
		}
		if hasTaint(n, node.TaintKey) || n.Name == last && !hasTaint(n, "example.com/reserved") {
			t.Errorf("Node %s has taints %v", n.Name, n.Spec.Taints)
		}
	}
	l.kubectl(t, "delete", "--wait=true", "--timeout=60s", "-k", leave)
	l.kubectl(t, "delete", "--ignore-not-found", "--wait=true", "--timeout=60s", "-k", kustomization(t, names, onKwok))
	if after := l.inventory(t); after != before {
		t.Errorf("before:\n%s\nafterwards:\n%s", before, after)
	}
}

// inventory are the names of all objects of the kinds that the manifests have.
func (l *lab) inventory(t *testing.T) string {
	t.Helper()
	return l.kubectl(t, "get", "-A", "--ignore-not-found", "-o", "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace,NAME:.metadata.name",
		"namespaces,serviceaccounts,configmaps,daemonsets,deployments,poddisruptionbudgets,priorityclasses,roles,rolebindings,jobs,clusterroles,clusterrolebindings,"+
			"validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings,nodepools,hyperpodnodeclasses")
}
