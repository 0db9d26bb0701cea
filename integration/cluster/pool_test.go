package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/agent/node"
)

// space applies a pod as the operator of Spaces makes it, that asks for so many cores.
func (l *lab) space(t *testing.T, name, cpu, more string) {
	t.Helper()
	l.create(t, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: default
  labels: {app: jupyter, workspace.jupyter.org/component: workspace, workspace.jupyter.org/workspace-name: %s}
spec:
  containers: [{name: workspace, image: "public.ecr.aws/sagemaker/sagemaker-distribution:latest-cpu", resources: {requests: {cpu: "%s", memory: 4Gi}}}]
%s`, name, name, cpu, more))
}

func (l *lab) pod(t *testing.T, namespace, name string) corev1.Pod {
	t.Helper()
	p, err := l.client.CoreV1().Pods(namespace).Get(within(t, patience), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *p
}

// landed waits until a pod is on a Node and gives its name.
func (l *lab) landed(t *testing.T, name string) string {
	t.Helper()
	on := ""
	l.until(t, "pod "+name+" is on a Node", func() error {
		on = l.pod(t, "default", name).Spec.NodeName
		if on == "" {
			return fmt.Errorf("pod %s is on no Node", name)
		}
		return nil
	})
	return on
}

// fromZero waits until there are exactly as many Nodes as placeholders, all bound, and none ready.
func (l *lab) fromZero(t *testing.T, want int) {
	t.Helper()
	l.until(t, fmt.Sprintf("%d placeholders hold %d Nodes", want, want), func() error {
		if err := count("placeholders on Nodes", bound(l.placeholderPods(t)), want); err != nil {
			return err
		}
		return count("Nodes", len(l.nodes(t)), want)
	})
	for _, p := range l.placeholderPods(t) {
		if isReady(p) {
			t.Errorf("placeholder %s is ready on a Node without the images", p.Name)
		}
	}
}

// allWarm waits until every placeholder is ready and marked.
func (l *lab) allWarm(t *testing.T, want int) {
	t.Helper()
	l.until(t, fmt.Sprintf("%d placeholders are ready", want), func() error {
		n := 0
		for _, p := range l.placeholderPods(t) {
			if isReady(p) && p.Labels[node.LabelWarm] == "true" {
				n++
			}
		}
		return count("placeholders that are ready", n, want)
	})
}

// steady holds that for a while there are no more and no fewer Nodes.
func (l *lab) steady(t *testing.T, want int, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := count("Nodes", len(l.nodes(t)), want); err != nil {
			t.Fatal(err)
		}
		<-time.After(500 * time.Millisecond)
	}
}

// The default: from zero, exactly one Node for each placeholder; ready once the agents have pulled; a loss takes it back.
func TestSharedNodePoolFromZero(t *testing.T) {
	l := newWarmPool(t)
	l.install(t, "", "overlays/shared-nodepool", "components/karpenter")
	l.fromZero(t, 2)
	l.warmAll(t)
	l.allWarm(t, 2)
	for _, n := range l.nodes(t) {
		if n.Labels[node.LabelReady] != "true" || n.Labels[node.LabelImagePrefix+"sagemaker-distribution-cpu"] == "" || n.Labels[node.LabelImagePrefix+"sagemaker-distribution-gpu"] != "" {
			t.Errorf("Node %s has labels %v, want those of the CPU image alone", n.Name, n.Labels)
		}
	}

	// A Space that fits beside a placeholder goes there and displaces nobody.
	before := names(l.placeholderPods(t))
	began := time.Now()
	l.space(t, "coexists", "4", "")
	on := l.landed(t, "coexists")
	t.Logf("Space created → on a warm Node: %v", time.Since(began))
	if l.agents[on] == nil {
		t.Errorf("it is on Node %s, which is new", on)
	}
	l.steady(t, 2, 5*time.Second)
	if after := names(l.placeholderPods(t)); !slices.Equal(before, after) {
		t.Errorf("placeholders were %v and are %v", before, after)
	}

	// An image that is lost takes gate, label and readiness with it, and they come back.
	lost := l.nodes(t)[0].Name
	w := l.agents[lost]
	if _, err := w.Crictl(within(t, patience), "rmi", "public.ecr.aws/sagemaker/sagemaker-distribution:latest-cpu"); err != nil {
		t.Fatal(err)
	}
	l.allWarm(t, 2)
	if err := w.agent.UntilLog(within(t, patience), "image is lost"); err != nil {
		t.Error(err)
	}
	l.steady(t, 2, 5*time.Second)
}

func names(pods []corev1.Pod) []string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	slices.Sort(out)
	return out
}
