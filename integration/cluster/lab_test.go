// Package cluster_test holds the manifests as shipped, and the agents that they run, to a whole control plane with Karpenter.
package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/prewarm-dev/prewarm/integration/harness"
)

const (
	// system is the namespace of the agent, and pool that of the placeholders.
	system, pool = "prewarm-system", "overprovisioning"
	patience     = time.Minute
)

// lab is a control plane, and the way to it as its administrator.
type lab struct {
	*harness.ControlPlane

	client kubernetes.Interface
	// agents are those that run, by Node.
	agents map[string]*warmer
	reg    *harness.Registry
	certs  string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	c := harness.NewControlPlane(t)
	config := c.Config()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &lab{ControlPlane: c, client: client, agents: map[string]*warmer{}}
}

// newWarmPool makes a lab in which Karpenter makes nodes, and where the images that the manifests name can be had.
func newWarmPool(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	l.StartKwok(t)
	l.StartKarpenter(t, harness.HyperPodTypes()...)
	l.kubectl(t, "apply", "--server-side", "-f", "testdata/foreign-crds.yaml")
	l.kubectl(t, "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
	l.reg = harness.NewRegistry(t, harness.RegistryOptions{})
	for i, tag := range []string{"latest-cpu", "latest-gpu"} {
		seed := uint64(900 + i)
		m := &harness.Machine{Registry: l.reg}
		m.Push(t, "sagemaker/sagemaker-distribution:"+tag, seed, 64<<10, 256<<10)
	}
	l.certs = harness.Dir(t)
	if err := l.reg.WriteHosts(l.certs, "public.ecr.aws"); err != nil {
		t.Fatal(err)
	}
	return l
}

// kubectl runs kubectl, which must go well.
func (l *lab) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := l.Kubectl(within(t, patience), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// manifests is the folder of the manifests.
func manifests(t *testing.T) string {
	t.Helper()
	root, err := harness.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "manifests")
}

// kustomization makes a folder with a kustomization on top of what is shipped, of which it says the names: base/…, overlays/… as
// resources, components/… as components. more is what else stands in it.
func kustomization(t *testing.T, names []string, more string) string {
	t.Helper()
	dir := harness.Dir(t)
	var resources, components []string
	for _, name := range names {
		path, err := filepath.Rel(dir, filepath.Join(manifests(t), name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "components/") {
			components = append(components, path)
		} else {
			resources = append(resources, path)
		}
	}
	text := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + strings.Join(resources, ", ") +
		"]\ncomponents: [" + strings.Join(components, ", ") + "]\n" + more
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// onKwok replaces what only HyperPod has: its kind of nodes.
const onKwok = `
patches:
  - target: {kind: NodePool}
    patch: |
      - op: replace
        path: /spec/template/spec/nodeClassRef
        value: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: spaces}
`

// kwokClass is what NodePools refer to instead of a HyperpodNodeClass.
const kwokClass = "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: spaces}\nspec: {}\n"

// install applies manifests as they are shipped, but for the kind of nodes.
func (l *lab) install(t *testing.T, more string, names ...string) {
	t.Helper()
	_, err := l.Kubectl(within(t, patience), "apply", "--server-side", "-k", kustomization(t, names, onKwok+more))
	if err != nil {
		t.Fatal(err)
	}
	l.create(t, kwokClass)
}

// create applies an object that is written in YAML.
func (l *lab) create(t *testing.T, yaml string) {
	t.Helper()
	file := filepath.Join(harness.Dir(t), "object.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	l.kubectl(t, "apply", "--server-side", "-f", file)
}

// nodes are the Nodes now, the oldest first.
func (l *lab) nodes(t *testing.T) []corev1.Node {
	t.Helper()
	list, err := l.client.CoreV1().Nodes().List(within(t, patience), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items
}

func (l *lab) pods(t *testing.T, namespace, selector string) []corev1.Pod {
	t.Helper()
	list, err := l.client.CoreV1().Pods(namespace).List(within(t, patience), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

// placeholderPods are those of all types.
func (l *lab) placeholderPods(t *testing.T) []corev1.Pod {
	t.Helper()
	return l.pods(t, pool, "app=spaces-placeholder")
}

// isReady reports whether a pod counts as ready.
func isReady(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// bound counts the pods that are on a Node.
func bound(pods []corev1.Pod) int {
	n := 0
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// tokenOf asks for the token of a pod, as its kubelet does: it is bound to the pod and names its Node.
func (l *lab) tokenOf(t *testing.T, p corev1.Pod) string {
	t.Helper()
	r, err := l.client.CoreV1().ServiceAccounts(p.Namespace).CreateToken(within(t, patience), p.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: new(int64(3600)),
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

// as gives the way to the API server of somebody with a token.
func (l *lab) as(token string) *rest.Config {
	c := l.Config()
	c.BearerToken, c.QPS = token, -1
	return c
}

// kubeconfig writes a file for somebody with a token.
func (l *lab) kubeconfig(t *testing.T, token string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(l.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	path := filepath.Join(harness.Dir(t), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// within is the test's context with a time limit.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errors.New("did not come within "+d.String()))
	t.Cleanup(cancel)
	return ctx
}

// until waits for something, and shows the cluster where it does not come.
func (l *lab) until(t *testing.T, what string, cond func() error) {
	t.Helper()
	began := time.Now()
	err := harness.Poll(within(t, patience), func(context.Context) error { return cond() })
	if err != nil {
		objects, _ := l.Kubectl(t.Context(), "get", "nodes,pods", "-A", "-o", "wide")
		events, _ := l.Kubectl(t.Context(), "get", "events", "-A")
		t.Fatalf("%s: %v\n%s\n%s", what, err, objects, events)
	}
	t.Logf("%s: after %v", what, time.Since(began).Round(10*time.Millisecond))
}

// count wants a number of something.
func count(what string, got, want int) error {
	if got != want {
		return fmt.Errorf("%d %s, want %d", got, what, want)
	}
	return nil
}
