package harness

import (
	_ "embed"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// podStages are how pods live on Nodes of kwok. kwok's own opens every readiness gate, which is what the agent is there for.
//
//go:embed podstages.yaml
var podStages []byte

const kwokTimeout = 30 * time.Second

// StartKwok starts kwok, which stands in for the kubelets of the Nodes that Karpenter makes: they become Ready at once, and so do
// pods on them, but for those with a readiness gate, which are ready while it is open.
func (c *ControlPlane) StartKwok(t T) {
	t.Helper()
	root, err := ModuleDir(t.Context(), "kwok", "sigs.k8s.io/kwok")
	if err != nil {
		t.Fatalf("kwok: %v", err)
	}
	nodeStage, err := os.ReadFile(filepath.Join(root, "kustomize", "stage", "node", "fast", "node-initialize.yaml"))
	if err != nil {
		t.Fatalf("kwok: %v", err)
	}
	stages := c.file("stages.yaml")
	if err := writeFile(stages, append(append(nodeStage, "\n---\n"...), podStages...)); err != nil {
		t.Fatalf("kwok: %v", err)
	}
	port, err := FreePort(t.Context())
	if err != nil {
		t.Fatalf("kwok: %v", err)
	}
	log := c.file("kwok.log")
	p, err := command{name: "kwok", env: []string{"HOME=" + c.Dir}, log: log, ownMounts: false, args: []string{
		"--kubeconfig=" + c.Kubeconfig(), "--config=" + stages, "--node-ip=127.0.0.1", "--server-address=" + loopback(port),
		"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
	}}.start(t.Context(), kwokTimeout, answers(&http.Client{Timeout: 2 * time.Second}, "http://"+loopback(port)+"/healthz"))
	if err != nil {
		t.Fatalf("%v", err)
	}
	atEnd(t, "kwok", log, p.stop)
}
