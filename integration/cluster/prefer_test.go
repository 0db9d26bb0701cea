package cluster_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/agent/node"
)

// unbound asks for a token that is bound to nothing.
func unbound() *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(3600))}}
}

// The pods of Spaces get one more preferred term, whatever affinity they bring, and nothing else; other pods get nothing.
func TestSpacesPreferWarmNodes(t *testing.T) {
	l := newLab(t)
	l.kubectl(t, "apply", "--server-side", "-k", kustomization(t, []string{"components/spaces-prefer-warm"}, ""))
	term := corev1.PreferredSchedulingTerm{Weight: 100, Preference: corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: node.LabelReady, Operator: corev1.NodeSelectorOpIn, Values: []string{"true"}}},
	}}
	const (
		required  = "requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}"
		preferred = "preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, preference: {matchExpressions: [{key: disk, operator: Exists}]}}]"
		ours      = "preferredDuringSchedulingIgnoredDuringExecution: [{weight: 3, preference: {matchExpressions: [{key: prewarm.dev/image-ready, operator: Exists}]}}]"
		pods      = "podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {x: y}}}]}"
	)
	cases := map[string]struct {
		affinity string
		space    bool
		added    bool
	}{
		"none":                   {"", true, true},
		"an empty one":           {"affinity: {}", true, true},
		"an empty one for nodes": {"affinity: {nodeAffinity: {}}", true, true},
		"required":               {"affinity: {nodeAffinity: {" + required + "}}", true, true},
		"preferred":              {"affinity: {nodeAffinity: {" + preferred + "}}", true, true},
		"both":                   {"affinity: {nodeAffinity: {" + required + ", " + preferred + "}}", true, true},
		"for pods":               {"affinity: {" + pods + "}", true, true},
		"with its own word":      {"affinity: {nodeAffinity: {" + ours + "}}", true, false},
		"of no Space":            {"affinity: {nodeAffinity: {" + preferred + "}}", false, false},
	}
	l.until(t, "the policy is in force", func() error {
		p, err := l.client.CoreV1().Pods("default").Create(within(t, patience), spacePod(t, "", true), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || p.Spec.Affinity == nil {
			return fmt.Errorf("nothing is added: %w", err)
		}
		return nil
	})
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			pod := spacePod(t, c.affinity, c.space)
			got, err := l.client.CoreV1().Pods("default").Create(within(t, patience), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				t.Fatal(err)
			}
			want := pod.Spec.Affinity.DeepCopy()
			if c.added {
				if want == nil {
					want = &corev1.Affinity{}
				}
				if want.NodeAffinity == nil {
					want.NodeAffinity = &corev1.NodeAffinity{}
				}
				list := &want.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
				*list = append(*list, term)
			}
			if d := cmp.Diff(want, got.Spec.Affinity, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("affinity (-want +got):\n%s", d)
			}
			if len(got.Spec.Containers) != 1 || got.Spec.Containers[0].Image != pod.Spec.Containers[0].Image || len(got.Labels) != len(pod.Labels) {
				t.Errorf("something else has changed: %+v", got)
			}
		})
	}
}

// spacePod is a pod of a Space, or not, with an affinity that is written in YAML.
func spacePod(t *testing.T, affinity string, space bool) *corev1.Pod {
	t.Helper()
	var p corev1.Pod
	text := "metadata: {generateName: space-, labels: {app: jupyter}}\nspec:\n  containers: [{name: workspace, image: registry.example/space:1}]\n  " + affinity + "\n"
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if space {
		p.Labels["workspace.jupyter.org/component"] = "workspace"
	}
	return &p
}
