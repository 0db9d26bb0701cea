package cluster_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/prewarm-dev/prewarm/agent/node"
)

func hasTaint(n corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// A pool of its own with the startup taint, row by row: placeholders hold their Nodes at once; a Space neither lands on one nor
// displaces its placeholder before it is warm; then it does, and the displaced one gets a new Node.
func TestDedicatedNodePool(t *testing.T) {
	l := newWarmPool(t)
	l.install(t, "", "overlays/dedicated-nodepool")
	l.fromZero(t, 2)
	for _, n := range l.nodes(t) {
		if !hasTaint(n, node.TaintKey) {
			t.Errorf("Node %s has no startup taint", n.Name)
		}
	}
	l.space(t, "small", "1", "")
	l.space(t, "big", "13", "")
	l.steady(t, 2, 20*time.Second)
	for _, name := range []string{"small", "big"} {
		if p := l.pod(t, "default", name); p.Spec.NodeName != "" || p.Status.NominatedNodeName != "" {
			t.Errorf("Space %s is on %q or about to be on %q, where no image is", name, p.Spec.NodeName, p.Status.NominatedNodeName)
		}
	}
	if err := count("placeholders on Nodes", bound(l.placeholderPods(t)), 2); err != nil {
		t.Error(err)
	}
	warm := l.nodes(t)[0].Name
	l.warm(t, warm)
	if on := l.landed(t, "small"); on != warm {
		t.Errorf("the small Space landed on %s, want the warm Node %s", on, warm)
	}
	l.until(t, "the big Space displaces the placeholder of the warm Node, which gets a new one", func() error {
		if on := l.pod(t, "default", "big").Spec.NodeName; on != warm {
			return fmt.Errorf("the big Space is on %q, want %s", on, warm)
		}
		return errors.Join(count("placeholders on Nodes", bound(l.placeholderPods(t)), 2), count("Nodes", len(l.nodes(t)), 3))
	})
	l.until(t, "Karpenter has initialized the warm Node, and no other", func() error {
		for _, n := range l.nodes(t) {
			if is := n.Labels["karpenter.sh/initialized"] == "true"; is != (n.Name == warm) {
				return fmt.Errorf("node %s is initialized: %v", n.Name, is)
			}
		}
		return nil
	})
	l.warmAll(t)
	l.allWarm(t, 2)
	l.steady(t, 3, 10*time.Second)
	for _, n := range l.nodes(t) {
		if hasTaint(n, node.TaintKey) {
			t.Errorf("Node %s still has the startup taint", n.Name)
		}
	}
}

// The label itself cannot be required where Karpenter makes the nodes: it never makes one. This is why the default is another.
func TestKarpenterMakesNoNodeForALabelThatComesLater(t *testing.T) {
	l := newWarmPool(t)
	l.install(t, "", "overlays/static-nodes", "components/karpenter")
	// The overlay is for Nodes with a label of their own; here they are Karpenter's.
	l.kubectl(t, "patch", "deployment", "-n", pool, "spaces-placeholder-cpu", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchExpressions/0",`+
			`"value":{"key":"karpenter.sh/nodepool","operator":"In","values":["spaces"]}}]`)
	l.until(t, "Karpenter says why", func() error {
		events := l.kubectl(t, "get", "events", "-n", pool, "-o", "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}")
		if !strings.Contains(events, "prewarm.dev/image-ready") || !strings.Contains(events, "does not have known values") {
			return errors.New(events)
		}
		return nil
	})
	l.steady(t, 0, 15*time.Second)
}

// kwokNode makes a Node that kwok runs, with 16 cores.
func (l *lab) kwokNode(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Status:     corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
	if _, err := l.client.CoreV1().Nodes().Create(within(t, patience), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Where nodes are there anyway the label is the gate: a placeholder waits for a warm Node.
func TestStaticNodes(t *testing.T) {
	l := newWarmPool(t)
	for _, name := range []string{"one", "two"} {
		l.kwokNode(t, name, map[string]string{"prewarm.dev/spaces": "true", corev1.LabelOSStable: "linux", corev1.LabelHostname: name})
	}
	l.kwokNode(t, "other", map[string]string{corev1.LabelOSStable: "linux", corev1.LabelHostname: "other"})
	l.install(t, "", "overlays/static-nodes")
	l.warm(t, "one")
	l.until(t, "one placeholder is on the warm Node, and the other waits", func() error {
		for _, p := range l.placeholderPods(t) {
			if p.Spec.NodeName != "" && p.Spec.NodeName != "one" {
				t.Fatalf("a placeholder is on Node %s, which is cold", p.Spec.NodeName)
			}
		}
		return count("placeholders on Nodes", bound(l.placeholderPods(t)), 1)
	})
	l.warm(t, "two")
	l.allWarm(t, 2)
	if pods := l.pods(t, system, "app.kubernetes.io/component=agent"); len(pods) != 2 {
		t.Errorf("%d agents, want one on each Node that can serve Spaces", len(pods))
	}
}

// preempting makes two Nodes with a placeholder each, the one on "old" started before, and one of them warm. Then a Space comes
// that has room on neither. It gives the Node of the warm placeholder and the one where the Space landed.
func (l *lab) preempting(t *testing.T, round int, warmOlder bool) (warm, landed string) {
	t.Helper()
	old, fresh := fmt.Sprintf("old-%d", round), fmt.Sprintf("new-%d", round)
	spaces := map[string]string{"karpenter.sh/nodepool": "spaces", corev1.LabelOSStable: "linux"}
	scale := func(n int, on string) {
		l.kwokNode(t, on, merged(spaces, map[string]string{corev1.LabelHostname: on}))
		l.kubectl(t, "scale", "deployment", "-n", pool, "spaces-placeholder-cpu", fmt.Sprintf("--replicas=%d", n))
		l.until(t, fmt.Sprintf("%d placeholders run", n), func() error {
			running := slices.DeleteFunc(l.placeholderPods(t), func(p corev1.Pod) bool { return p.Status.StartTime == nil })
			return count("placeholders that run", len(running), n)
		})
	}
	scale(1, old)
	<-time.After(1100 * time.Millisecond) // times of start have whole seconds
	scale(2, fresh)
	warm = fresh
	if warmOlder {
		warm = old
	}
	for _, p := range l.placeholderPods(t) {
		if p.Spec.NodeName != warm {
			continue
		}
		_, err := l.client.CoreV1().Pods(pool).Patch(within(t, patience), p.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"prewarm.dev/warm":"true"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	l.budgetSeen(t)
	name := fmt.Sprintf("space-%d", round)
	l.space(t, name, "15", "")
	landed = l.landed(t, name)
	l.kubectl(t, "delete", "pod", "-n", "default", name, "--grace-period=0", "--force")
	l.kubectl(t, "scale", "deployment", "-n", pool, "spaces-placeholder-cpu", "--replicas=0")
	l.until(t, "the round is over", func() error { return count("placeholders", len(l.placeholderPods(t)), 0) })
	l.kubectl(t, "delete", "node", old, fresh)
	return warm, landed
}

// budgetSeen waits until the budget of cold placeholders, if there is one, allows no disruption.
func (l *lab) budgetSeen(t *testing.T) {
	t.Helper()
	l.until(t, "the budget has been reckoned", func() error {
		list, err := l.client.PolicyV1().PodDisruptionBudgets(pool).List(within(t, patience), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return err
		}
		s := list.Items[0].Status
		return errors.Join(count("generation that was looked at", int(s.ObservedGeneration), int(list.Items[0].Generation)), count("disruptions allowed", int(s.DisruptionsAllowed), 0))
	})
}

func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// A Space that must displace a placeholder takes the warm one, whichever is older. Without the PodDisruptionBudget it takes the
// one that started last, whatever is on its node: if that changes one day, the budget is not needed any more.
func TestTheWarmPlaceholderIsDisplaced(t *testing.T) {
	l := newLab(t)
	l.StartKwok(t)
	l.kubectl(t, "apply", "--server-side", "-k", kustomization(t, []string{"base/placeholder"}, ""))
	const rounds = 10
	for round := range rounds {
		older := round%2 == 0
		if warm, landed := l.preempting(t, round, older); landed != warm {
			t.Errorf("round %d, the warm one older %v: the Space landed on %s, want %s", round, older, landed, warm)
		}
	}
	l.kubectl(t, "delete", "poddisruptionbudget", "-n", pool, "spaces-placeholder-cold")
	if warm, landed := l.preempting(t, rounds, true); landed == warm {
		t.Error("without the budget the Space displaced the older placeholder: the scheduler has changed")
	}
}

// A node that is full of placeholders gets its agent all the same: a placeholder goes.
func TestTheAgentIsNotKeptOff(t *testing.T) {
	l := newLab(t)
	l.StartKwok(t)
	l.kwokNode(t, "full", map[string]string{"karpenter.sh/nodepool": "spaces", corev1.LabelOSStable: "linux", corev1.LabelHostname: "full"})
	l.kubectl(t, "apply", "--server-side", "-k", kustomization(t, []string{"base/placeholder"}, `
patches:
  - target: {kind: Deployment}
    patch: |
      - op: replace
        path: /spec/template/spec/containers/0/resources
        value: {requests: {cpu: "15990m"}}
`))
	l.until(t, "a placeholder fills the Node", func() error { return count("placeholders on Nodes", bound(l.placeholderPods(t)), 1) })
	l.kubectl(t, "taint", "node", "full", "example.com/keep-out=:NoSchedule", "example.com/drain=:NoExecute")
	l.kubectl(t, "apply", "--server-side", "-k", kustomization(t, []string{"base/agent"}, ""))
	l.until(t, "the agent runs, and the placeholder waits", func() error {
		agents := slices.DeleteFunc(l.pods(t, system, "app.kubernetes.io/component=agent"), func(p corev1.Pod) bool { return !isReady(p) })
		return errors.Join(count("agents that run", len(agents), 1), count("placeholders on Nodes", bound(l.placeholderPods(t)), 0))
	})
}
