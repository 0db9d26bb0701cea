package cluster_test

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/integration/harness"
)

// warmer is what runs on a Node: a containerd, and the agent as the pod of the DaemonSet.
type warmer struct {
	*harness.Containerd

	agent *harness.Agent
}

// warm runs the agent of a Node on a containerd: as the pod that the DaemonSet has made there, with its token and its
// configuration.
func (l *lab) warm(t *testing.T, node string, flags ...string) *warmer {
	t.Helper()
	var own *corev1.Pod
	l.until(t, "the DaemonSet's pod is on Node "+node, func() error {
		for _, p := range l.pods(t, system, "app.kubernetes.io/component=agent") {
			if p.Spec.NodeName == node {
				own = &p
				return nil
			}
		}
		return count("pods of the agent there", 0, 1)
	})
	config, err := l.client.CoreV1().ConfigMaps(system).Get(within(t, patience), "prewarm", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(harness.Dir(t), "config.yaml")
	if err := os.WriteFile(file, []byte(config.Data["config.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &warmer{Containerd: harness.NewContainerd(t, harness.ContainerdOptions{RegistryConfigPath: l.certs})}
	w.agent = harness.NewAgent(t, append([]string{
		"--config=" + file, "--node-name=" + node, "--kubeconfig=" + l.kubeconfig(t, l.tokenOf(t, *own)), "--runtime-endpoint=" + w.Endpoint(),
	}, flags...)...)
	l.agents[node] = w
	return w
}

// warmAll runs the agents of all Nodes that have none yet.
func (l *lab) warmAll(t *testing.T) {
	t.Helper()
	for _, n := range l.nodes(t) {
		if l.agents[n.Name] == nil {
			l.warm(t, n.Name)
		}
	}
}
