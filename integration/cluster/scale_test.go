package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/agent/node"
)

// quickly lets Karpenter remove empty Nodes after a second instead of minutes; the rest of the NodePool is as it is shipped.
const quickly = `
  - target: {kind: NodePool}
    patch: |
      - op: replace
        path: /spec/disruption/consolidateAfter
        value: 1s
`

// gpuPool is a NodePool of Nodes with GPUs, which keep other pods away as such Nodes do, and a label that both pools have.
const gpuPool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: spaces-gpu}
spec:
  template:
    metadata: {labels: {example.com/spaces: "true"}}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: spaces}
      taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [ml.g5.4xlarge]}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 5m}
`

// Nodes with accelerators get the GPU image and no other, and are held by placeholders of their own; the others stay as they are.
// Two NodePools are chosen by a label that both have, which is one setting.
func TestNodesWithGPUs(t *testing.T) {
	l := newWarmPool(t)
	dir := kustomization(t, []string{"base/agent", "base/placeholder", "components/karpenter", "components/gpu", "components/settings"}, onKwok+`
  - target: {kind: NodePool}
    patch: |
      - op: add
        path: /spec/template/metadata
        value: {labels: {example.com/spaces: "true"}}
`)
	withSettings(t, dir, "overlays/shared-nodepool", map[string]string{"nodeLabelKey": "example.com/spaces", "nodeLabelValue": "true"})
	l.kubectl(t, "apply", "--server-side", "-k", dir)
	l.create(t, kwokClass)
	l.create(t, gpuPool)
	l.fromZero(t, 3)
	l.warmAll(t)
	l.allWarm(t, 3)
	gpus := 0
	for _, n := range l.nodes(t) {
		gpu := n.Labels[corev1.LabelInstanceTypeStable] == "ml.g5.4xlarge"
		if gpu {
			gpus++
		}
		_, hasCPU := n.Labels[node.LabelImagePrefix+"sagemaker-distribution-cpu"]
		_, hasGPU := n.Labels[node.LabelImagePrefix+"sagemaker-distribution-gpu"]
		if hasGPU != gpu || hasCPU == gpu {
			t.Errorf("Node %s of type %s has labels %v", n.Name, n.Labels[corev1.LabelInstanceTypeStable], n.Labels)
		}
	}
	if gpus != 1 {
		t.Errorf("%d Nodes with GPUs, want 1", gpus)
	}
}

// Karpenter leaves Nodes that placeholders hold, and removes those that nothing holds, one at a time; with no placeholders there
// are no Nodes.
func TestToZero(t *testing.T) {
	l := newWarmPool(t)
	l.install(t, quickly, "overlays/shared-nodepool", "components/karpenter")
	l.fromZero(t, 2)
	l.steady(t, 2, 15*time.Second)
	l.space(t, "large", "15", "")
	l.until(t, "a Space has a Node of its own", func() error {
		return errors.Join(count("Nodes", len(l.nodes(t)), 3), count("placeholders on Nodes", bound(l.placeholderPods(t)), 2))
	})
	l.kubectl(t, "delete", "pod", "large", "--grace-period=0", "--force")
	l.until(t, "the Node that nothing holds is gone", func() error { return count("Nodes", len(l.nodes(t)), 2) })
	l.steady(t, 2, 5*time.Second)
	// What the ladder of components/cpa-ladder gives for no Nodes, and a person who pauses the pool.
	l.kubectl(t, "scale", "deployment", "-n", pool, "spaces-placeholder-cpu", "--replicas=0")
	l.until(t, "there are no Nodes", func() error { return count("Nodes", len(l.nodes(t)), 0) })
}

// linear is the rule of the Cluster Proportional Autoscaler (its README, "Linear Mode") for the cores and Nodes that it counts.
type linear struct {
	CoresPerReplica           float64 `json:"coresPerReplica"`
	NodesPerReplica           float64 `json:"nodesPerReplica"`
	Min                       int     `json:"min"`
	Max                       int     `json:"max"`
	PreventSinglePointFailure bool    `json:"preventSinglePointFailure"`
}

func (r linear) replicas(cores, nodes int) int {
	n := 0.0
	if r.CoresPerReplica > 0 {
		n = max(n, math.Ceil(float64(cores)/r.CoresPerReplica))
	}
	if r.NodesPerReplica > 0 {
		n = max(n, math.Ceil(float64(nodes)/r.NodesPerReplica))
	}
	out := min(max(int(n), r.Min), r.Max)
	if r.PreventSinglePointFailure && nodes > 1 {
		out = max(out, 2)
	}
	return out
}

// autoscale applies the rule to the Nodes that Karpenter has made until nothing changes for a while, and gives the replicas.
func (l *lab) autoscale(t *testing.T, r linear) int {
	t.Helper()
	last, since := -1, time.Now()
	for time.Since(since) < 8*time.Second {
		nodes := l.nodes(t)
		want := r.replicas(16*len(nodes), len(nodes))
		if want != last {
			l.kubectl(t, "scale", "deployment", "-n", pool, "spaces-placeholder-cpu", fmt.Sprintf("--replicas=%d", want))
			last, since = want, time.Now()
		}
		if len(nodes) > 12 {
			t.Fatalf("%d Nodes: it runs away", len(nodes))
		}
		<-time.After(500 * time.Millisecond)
	}
	return last
}

// The shipped setting stays far below its maximum while Spaces come and go. One that counts cores feeds on the Nodes that the
// placeholders themselves make, and runs to the maximum: this is why it is not shipped.
func TestTheAutoscalersSetting(t *testing.T) {
	l := newWarmPool(t)
	l.install(t, "", "overlays/shared-nodepool", "components/karpenter")
	l.fromZero(t, 2)
	config, err := l.client.CoreV1().ConfigMaps(pool).Get(within(t, patience), "spaces-overprovision-cpa-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var shipped linear
	if err := json.Unmarshal([]byte(config.Data["linear"]), &shipped); err != nil {
		t.Fatal(err)
	}
	if shipped.CoresPerReplica != 0 || shipped.NodesPerReplica < 2 || shipped.PreventSinglePointFailure || shipped.Max <= shipped.Min {
		t.Errorf("%+v", shipped)
	}
	for i := range 3 {
		l.space(t, fmt.Sprintf("space-%d", i), "15", "")
		l.landed(t, fmt.Sprintf("space-%d", i))
		if n := l.autoscale(t, shipped); n >= shipped.Max {
			t.Errorf("with %d Spaces there are %d placeholders", i+1, n)
		}
	}
	if n := len(l.nodes(t)); n > 5 {
		t.Errorf("3 Spaces and their warm pool have %d Nodes, want at most 5", n)
	}
	fed := linear{CoresPerReplica: 16, NodesPerReplica: 3, Min: 2, Max: 6}
	if n := l.autoscale(t, fed); n != fed.Max {
		t.Errorf("the setting that counts cores stays at %d placeholders: the reason against it is gone", n)
	}
}

// Of two Nodes with room a Space gets the warm one, whatever affinity it brings.
func TestASpaceGetsTheWarmNode(t *testing.T) {
	l := newWarmPool(t)
	l.kubectl(t, "apply", "--server-side", "-k", kustomization(t, []string{"components/spaces-prefer-warm"}, ""))
	nodes := []string{"cold-a", "warm", "cold-b"}
	for _, name := range nodes {
		labels := map[string]string{corev1.LabelHostname: name, "zone": "a"}
		if name == "warm" {
			labels[node.LabelReady] = "true"
		}
		l.kwokNode(t, name, labels)
	}
	l.until(t, "the Nodes are Ready", func() error {
		for _, n := range l.nodes(t) {
			if len(n.Spec.Taints) > 0 {
				return fmt.Errorf("node %s has taints", n.Name)
			}
		}
		return nil
	})
	affinities := []string{
		"", "  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}",
		"  affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 50, preference: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}]}}",
		"  affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {x: z}}}}]}}",
	}
	l.until(t, "the policy is in force", func() error {
		p, err := l.client.CoreV1().Pods("default").Create(within(t, patience), spacePod(t, "", true), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || p.Spec.Affinity == nil {
			return fmt.Errorf("nothing is added: %w", err)
		}
		return nil
	})
	var landed []string
	for i, affinity := range affinities {
		for j := range 2 {
			name := fmt.Sprintf("space-%d-%d", i, j)
			l.space(t, name, "1", affinity)
			landed = append(landed, l.landed(t, name))
		}
	}
	if slices.ContainsFunc(landed, func(on string) bool { return on != "warm" }) {
		t.Errorf("Spaces landed on %v", landed)
	}
}
