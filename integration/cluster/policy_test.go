package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/prewarm-dev/prewarm/agent/node"
)

// boundPod creates a pod that is on a Node, as if its kubelet had taken it.
func (l *lab) boundPod(t *testing.T, namespace, name, nodeName, account string, labels map[string]string) corev1.Pod {
	t.Helper()
	p, err := l.client.CoreV1().Pods(namespace).Create(within(t, patience), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels, Annotations: map[string]string{"example.com/note": "x"}},
		Spec: corev1.PodSpec{
			NodeName: nodeName, ServiceAccountName: account, SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{Name: "c", Image: "registry.example/pause:1", SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			}}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: node.GateImageReady}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *p
}

// With the token of the agent on Node a, just what the agent does there may be done. What is refused would be allowed by RBAC.
func TestWhatTheAgentsTokenMayDo(t *testing.T) {
	l := newLab(t)
	l.kubectl(t, "apply", "--server-side", "-k", kustomization(t, []string{"base/agent", "base/placeholder"}, ""))
	// RBAC gives more here than is shipped, so that it is the policy that refuses.
	l.create(t, `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: too-much}
rules:
  - {apiGroups: [""], resources: [nodes, nodes/status, pods, pods/status], verbs: ["*"]}
  - {apiGroups: [events.k8s.io], resources: [events], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: too-much}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: too-much}
subjects: [{kind: ServiceAccount, name: prewarm, namespace: prewarm-system}]
`)
	for _, name := range []string{"a", "b"} {
		if _, err := l.CreateNode(within(t, patience), name, map[string]string{"example.com/pool": "spaces"}); err != nil {
			t.Fatal(err)
		}
		l.kubectl(t, "taint", "node", name, node.TaintKey+":NoSchedule", "example.com/reserved=yes:NoSchedule")
	}
	holder := map[string]string{"app": "spaces-placeholder", "type": "cpu"}
	agentPod := l.boundPod(t, system, "agent-a", "a", "prewarm", nil)
	l.boundPod(t, pool, "on-a", "a", "default", holder)
	l.boundPod(t, pool, "on-b", "b", "default", holder)
	l.boundPod(t, pool, "stranger", "a", "default", map[string]string{"app": "other"})
	l.boundPod(t, "default", "elsewhere", "a", "default", holder)
	agent, err := kubernetes.NewForConfig(l.as(l.tokenOf(t, agentPod)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.client.CoreV1().ServiceAccounts(system).CreateToken(within(t, patience), "prewarm", unbound(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	loose, err := kubernetes.NewForConfig(l.as(r.Status.Token))
	if err != nil {
		t.Fatal(err)
	}

	patchNode := func(name, body string, sub ...string) func(kubernetes.Interface) error {
		return func(c kubernetes.Interface) error {
			_, err := c.CoreV1().Nodes().Patch(within(t, patience), name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, sub...)
			return err
		}
	}
	patchPod := func(namespace, name, body string, sub ...string) func(kubernetes.Interface) error {
		return func(c kubernetes.Interface) error {
			_, err := c.CoreV1().Pods(namespace).Patch(within(t, patience), name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, sub...)
			return err
		}
	}
	jsonNode := func(name, body string) func(kubernetes.Interface) error {
		return func(c kubernetes.Interface) error {
			_, err := c.CoreV1().Nodes().Patch(within(t, patience), name, types.JSONPatchType, []byte(body), metav1.PatchOptions{})
			return err
		}
	}
	event := func(kind, name, controller string) func(kubernetes.Interface) error {
		return func(c kubernetes.Interface) error {
			body := fmt.Sprintf(`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"generateName":"x-","namespace":"default"},`+
				`"eventTime":"2026-01-02T03:04:05.000000Z","reportingController":%q,"reportingInstance":"a","action":"Pull","reason":"Pulled","type":"Normal",`+
				`"regarding":{"kind":%q,"name":%q}}`, controller, kind, name)
			return c.EventsV1().RESTClient().Post().Namespace("default").Resource("events").Body([]byte(body)).
				SetHeader("Content-Type", "application/json").Do(within(t, patience)).Error()
		}
	}
	condition := func(kind string) string {
		return fmt.Sprintf(`{"status":{"conditions":[{"type":%q,"status":"True","reason":"x"}]}}`, kind)
	}
	onlyOwn, placeholdersOnly := "may not write to Node b", "only to placeholder pods on that Node"
	cases := []struct {
		what    string
		do      func(kubernetes.Interface) error
		refused string // words of the refusal; empty: it is allowed
	}{
		{"its labels", patchNode("a", `{"metadata":{"labels":{"prewarm.dev/image-ready":"true","image.prewarm.dev/cpu":"0123456789ab"}}}`), ""},
		{"the removal of its labels", patchNode("a", `{"metadata":{"labels":{"prewarm.dev/image-ready":null}}}`), ""},
		{"its condition", patchNode("a", condition("prewarm.dev/ImagesReady"), "status"), ""},
		{"its event", event("Node", "a", "prewarm.dev/agent"), ""},
		{"the gate of its placeholder", patchPod(pool, "on-a", condition(node.GateImageReady), "status"), ""},
		{"the label of its placeholder", patchPod(pool, "on-a", `{"metadata":{"labels":{"prewarm.dev/warm":"true"}}}`), ""},

		{"labels of another Node", patchNode("b", `{"metadata":{"labels":{"prewarm.dev/image-ready":"true"}}}`), onlyOwn},
		{"the condition of another Node", patchNode("b", condition("prewarm.dev/ImagesReady"), "status"), onlyOwn},
		{"the taint of another Node", jsonNode("b", `[{"op":"remove","path":"/spec/taints/0"}]`), onlyOwn},
		{"a foreign label", patchNode("a", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`), "of a Node's labels"},
		{"the removal of a foreign label", patchNode("a", `{"metadata":{"labels":{"example.com/pool":null}}}`), "of a Node's labels"},
		{"another value of a foreign label", patchNode("a", `{"metadata":{"labels":{"example.com/pool":"x"}}}`), "of a Node's labels"},
		{"a label through the status", patchNode("a", `{"metadata":{"labels":{"example.com/pool":"x"}}}`, "status"), "of a Node's labels"},
		{"an annotation", patchNode("a", `{"metadata":{"annotations":{"x":"y"}}}`), "of a Node the agent writes only"},
		{"cordon", patchNode("a", `{"spec":{"unschedulable":true}}`), "of a Node the agent writes only"},
		{"a new taint", jsonNode("a", `[{"op":"add","path":"/spec/taints/-","value":{"key":"x","effect":"NoExecute"}}]`), "of a Node's taints"},
		{"the removal of a foreign taint", jsonNode("a", `[{"op":"remove","path":"/spec/taints/1"}]`), "of a Node's taints"},
		{"another condition", patchNode("a", condition("Ready"), "status"), "of a Node's conditions"},
		{"capacity", patchNode("a", `{"status":{"capacity":{"cpu":"1000"}}}`, "status"), "of a Node the agent writes only"},
		{"a list of images", patchNode("a", `{"status":{"images":[{"names":["x"]}]}}`, "status"), "of a Node the agent writes only"},
		{"a new Node", func(c kubernetes.Interface) error {
			_, err := c.CoreV1().Nodes().Create(within(t, patience), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
			return err
		}, "creates and deletes neither"},
		{"the end of its Node", func(c kubernetes.Interface) error {
			return c.CoreV1().Nodes().Delete(within(t, patience), "a", metav1.DeleteOptions{})
		}, "creates and deletes neither"},
		{"the end of a pod", func(c kubernetes.Interface) error {
			return c.CoreV1().Pods(pool).Delete(within(t, patience), "on-a", metav1.DeleteOptions{})
		}, "creates and deletes neither"},
		{"a placeholder on another Node", patchPod(pool, "on-b", condition(node.GateImageReady), "status"), placeholdersOnly},
		{"the label of a placeholder on another Node", patchPod(pool, "on-b", `{"metadata":{"labels":{"prewarm.dev/warm":"true"}}}`), placeholdersOnly},
		{"a pod that is no placeholder", patchPod(pool, "stranger", condition(node.GateImageReady), "status"), placeholdersOnly},
		{"a pod elsewhere", patchPod("default", "elsewhere", condition(node.GateImageReady), "status"), placeholdersOnly},
		{"another label of a placeholder", patchPod(pool, "on-a", `{"metadata":{"labels":{"type":"gpu"}}}`), "of a placeholder's labels"},
		{"readiness itself", patchPod(pool, "on-a", condition("Ready"), "status"), "of a placeholder's conditions"},
		{"a placeholder's image", patchPod(pool, "on-a", `{"spec":{"containers":[{"name":"c","image":"x"}]}}`), "of a placeholder pod the agent writes only"},
		{"a placeholder's phase", patchPod(pool, "on-a", `{"status":{"phase":"Failed"}}`, "status"), "of a placeholder pod the agent writes only"},
		{"an event about another Node", event("Node", "b", "prewarm.dev/agent"), "only events about its own Node"},
		{"an event about something else", event("Pod", "a", "prewarm.dev/agent"), "only events about its own Node"},
		{"an event in another's name", event("Node", "a", "kubelet"), "only events about its own Node"},
		// Last, since it cannot be undone.
		{"the removal of its taint", jsonNode("a", `[{"op":"test","path":"/spec/taints/0/key","value":"`+node.TaintKey+`"},{"op":"remove","path":"/spec/taints/0"}]`), ""},
	}
	// A policy takes a moment to be in force.
	l.until(t, "the policy is in force", func() error {
		if err := patchNode("b", `{"metadata":{"labels":{"prewarm.dev/image-ready":"true"}}}`)(agent); !apierrors.IsForbidden(err) {
			return fmt.Errorf("not refused: %w", err)
		}
		return nil
	})
	for _, c := range cases {
		t.Run(c.what, func(t *testing.T) {
			if err := c.do(loose); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "prewarm: ") {
				t.Errorf("with a token that is bound to no pod: %v", err)
			}
			err := c.do(agent)
			switch {
			case c.refused == "" && err != nil:
				t.Errorf("is refused: %v", err)
			case c.refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("got %v, want a refusal with %q", err, c.refused)
			}
		})
	}
	// Others are not bound by it.
	if err := patchNode("b", `{"metadata":{"labels":{"prewarm.dev/image-ready":"true"}}}`)(l.client); err != nil {
		t.Errorf("the administrator: %v", err)
	}
}
