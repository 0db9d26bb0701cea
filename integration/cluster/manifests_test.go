package cluster_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// rendered are the objects of a kustomization.
func rendered(t *testing.T, dir string) []unstructured.Unstructured {
	t.Helper()
	path, err := harness.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	text, err := harness.Run(within(t, patience), path, "kustomize", dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []unstructured.Unstructured
	for _, doc := range regexp.MustCompile(`(?m)^---\n`).Split(text, -1) {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// pick gives the objects of a kind as what they are.
func pick[T any](t *testing.T, objects []unstructured.Unstructured, kind string) []T {
	t.Helper()
	var out []T
	for _, o := range objects {
		if o.GetKind() != kind {
			continue
		}
		var typed T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &typed, true); err != nil {
			t.Fatalf("%s %s: %v", kind, o.GetName(), err)
		}
		out = append(out, typed)
	}
	return out
}

// folders are those of a kind of manifests.
func folders(t *testing.T, kind string) []string {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(manifests(t), kind))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range list {
		out = append(out, kind+"/"+f.Name())
	}
	return out
}

// with are the kustomizations of a component: what it changes stands before it.
func with(component string) []string {
	switch component {
	case "components/settings":
		return nil // every overlay has it
	case "components/cpa-ladder":
		return []string{"base/placeholder", "components/cpa", component}
	case "components/startup-taint":
		return []string{"components/karpenter", component}
	default:
		return []string{"base/agent", "base/placeholder", component}
	}
}

// Everything that is shipped is taken by the API server, each overlay as it is and each component where it belongs; no field is
// unknown to it.
func TestEverythingIsAccepted(t *testing.T) {
	l := newWarmPool(t)
	for _, name := range []string{system, pool} { // a dry run makes no namespace for what comes after it
		l.kubectl(t, "create", "namespace", name)
	}
	dryRun := func(t *testing.T, dir string) {
		t.Helper()
		out := l.kubectl(t, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts", "-k", dir)
		if n := strings.Count(out, "\n"); n < 1 {
			t.Errorf("nothing was applied: %s", out)
		}
	}
	for _, name := range folders(t, "overlays") {
		t.Run(name, func(t *testing.T) { dryRun(t, filepath.Join(manifests(t), name)) })
	}
	t.Run("cleanup", func(t *testing.T) { dryRun(t, filepath.Join(manifests(t), "cleanup")) })
	for _, name := range folders(t, "components") {
		if names := with(name); names != nil {
			t.Run(name, func(t *testing.T) { dryRun(t, kustomization(t, names, "")) })
		}
	}
}

// The roles give what the agent asks for, no more and no less.
func TestRolesGiveWhatTheAgentAsksFor(t *testing.T) {
	objects := rendered(t, filepath.Join(manifests(t), "overlays/shared-nodepool"))
	var got []string
	add := func(scope string, rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			for _, g := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						got = append(got, strings.Join([]string{scope, g, resource, verb}, " "))
					}
				}
			}
		}
	}
	for _, r := range pick[rbacv1.ClusterRole](t, objects, "ClusterRole") {
		if r.Name == "prewarm" {
			add("", r.Rules)
		}
	}
	for _, r := range pick[rbacv1.Role](t, objects, "Role") {
		if r.Name == "prewarm" {
			add(r.Namespace, r.Rules)
		}
	}
	var want []string
	for _, p := range node.Permissions() {
		scope := string(p.Namespace)
		if p.Namespace == node.ScopePlaceholders {
			scope = pool
		}
		want = append(want, strings.Join([]string{scope, p.Group, p.Resource, p.Verb}, " "))
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("what the code asks for (-) and what the roles give (+):\n%s", d)
	}
	for _, b := range pick[rbacv1.RoleBinding](t, objects, "RoleBinding") {
		if b.Name == "prewarm" && (len(b.Subjects) != 1 || b.Subjects[0].Namespace != system || b.Subjects[0].Name != "prewarm") {
			t.Errorf("role binding in %s: %+v", b.Namespace, b.Subjects)
		}
	}
}

// The agent runs wherever it must, is in nobody's way, and can do nothing on the node but by the socket.
func TestTheDaemonSet(t *testing.T) {
	for _, overlay := range folders(t, "overlays") {
		t.Run(overlay, func(t *testing.T) {
			ds := pick[appsv1.DaemonSet](t, rendered(t, filepath.Join(manifests(t), overlay)), "DaemonSet")
			if len(ds) != 1 {
				t.Fatalf("%d DaemonSets", len(ds))
			}
			pod := ds[0].Spec.Template.Spec
			c := pod.Containers[0]
			if d := cmp.Diff([]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, pod.Tolerations); d != "" {
				t.Errorf("it must tolerate everything:\n%s", d)
			}
			if pod.PriorityClassName != "system-node-critical" || pod.HostNetwork || pod.HostPID || pod.HostIPC || len(pod.InitContainers) > 0 || len(pod.Containers) != 1 {
				t.Errorf("%+v", pod)
			}
			s := c.SecurityContext
			if s.Privileged != nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
				s.Capabilities.Add != nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("security context %+v", s)
			}
			var mounts []string
			for _, v := range pod.Volumes {
				if v.HostPath != nil {
					mounts = append(mounts, v.HostPath.Path)
				}
			}
			slices.Sort(mounts)
			if d := cmp.Diff([]string{"/etc/containerd", "/run/containerd", "/var/lib/containerd"}, mounts); d != "" {
				t.Errorf("folders of the node:\n%s", d)
			}
			for _, m := range c.VolumeMounts {
				if !m.ReadOnly || m.MountPath == "/run/containerd/containerd.sock" {
					t.Errorf("mount %+v: want it read-only, and the socket's folder, not the socket", m)
				}
			}
			// A label that comes late would keep the agent, which brings it, off the node for ever.
			for key := range pod.NodeSelector {
				t.Errorf("it selects nodes by %s", key)
			}
			for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
				for _, e := range term.MatchExpressions {
					if strings.HasPrefix(e.Key, node.LabelReady) || strings.HasPrefix(e.Key, node.LabelImagePrefix) {
						t.Errorf("it selects nodes by %s", e.Key)
					}
				}
			}
			if q := c.Resources.Requests[corev1.ResourceCPU]; q.MilliValue() > 50 {
				t.Errorf("it asks for %s of CPU", q.String())
			}
		})
	}
}

// Placeholders do nothing, give way to everything, and are in nobody's quota.
func TestThePlaceholders(t *testing.T) {
	for _, overlay := range folders(t, "overlays") {
		t.Run(overlay, func(t *testing.T) {
			objects := rendered(t, kustomization(t, []string{overlay, "components/gpu"}, ""))
			for _, n := range pick[corev1.Namespace](t, objects, "Namespace") {
				for key := range n.Labels {
					if strings.HasPrefix(key, "sagemaker.amazonaws.com/") || strings.HasPrefix(key, "kueue.x-k8s.io/") {
						t.Errorf("namespace %s has the label %s: Kueue would hold its pods back", n.Name, key)
					}
				}
			}
			found := 0
			for _, d := range pick[appsv1.Deployment](t, objects, "Deployment") {
				if !strings.HasPrefix(d.Name, "spaces-placeholder-") {
					continue
				}
				found++
				pod := d.Spec.Template.Spec
				if len(pod.InitContainers) > 0 || len(pod.Containers) != 1 || *pod.AutomountServiceAccountToken || *pod.TerminationGracePeriodSeconds != 0 ||
					pod.PriorityClassName != "overprovisioning-placeholder" || len(pod.ReadinessGates) != 1 {
					t.Errorf("%s: %+v", d.Name, pod)
				}
				if _, ok := d.Spec.Template.Annotations["karpenter.sh/do-not-disrupt"]; ok {
					t.Errorf("%s blocks drift", d.Name)
				}
				// A node is never made for a label that only the agent brings: that is for nodes that are there.
				required := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions
				needs := slices.ContainsFunc(required, func(e corev1.NodeSelectorRequirement) bool { return e.Key == node.LabelReady })
				if static := overlay == "overlays/static-nodes" && d.Name == "spaces-placeholder-cpu"; needs != static {
					t.Errorf("%s requires the label of a warm node: %v", d.Name, needs)
				}
				terms := pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				if got := terms[0].LabelSelector.MatchLabels["type"]; got != d.Spec.Template.Labels["type"] {
					t.Errorf("%s stays away from placeholders of type %s", d.Name, got)
				}
			}
			if found != 2 {
				t.Errorf("%d placeholder Deployments, want one of each type", found)
			}
		})
	}
}

// The configuration that is shipped is one that the agent takes, for the images of the guide.
func TestTheConfiguration(t *testing.T) {
	for _, m := range pick[corev1.ConfigMap](t, rendered(t, filepath.Join(manifests(t), "base/agent")), "ConfigMap") {
		c, err := config.Parse("config.yaml", []byte(m.Data["config.yaml"]))
		if err != nil {
			t.Fatal(err)
		}
		var refs []string
		for _, i := range c.Images {
			refs = append(refs, i.Reference.String())
		}
		want := []string{"public.ecr.aws/sagemaker/sagemaker-distribution:latest-cpu", "public.ecr.aws/sagemaker/sagemaker-distribution:latest-gpu"}
		if d := cmp.Diff(want, refs); d != "" {
			t.Error(d)
		}
	}
}
