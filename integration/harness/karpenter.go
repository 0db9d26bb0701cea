package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const karpenterTimeout = time.Minute

// InstanceType is a type of node that Karpenter can make.
type InstanceType struct {
	// Name is such as ml.m5.4xlarge.
	Name string
	// Resources are what a node has, as Kubernetes writes them: cpu, memory, nvidia.com/gpu.
	Resources map[string]string
	// Price decides which of two types is taken.
	Price float64
}

// HyperPodTypes are types as HyperPod has them: 16 cores without an accelerator, and with one.
func HyperPodTypes() []InstanceType {
	return []InstanceType{
		{Name: "ml.m5.4xlarge", Resources: map[string]string{"cpu": "16", "memory": "64Gi"}, Price: 1},
		{Name: "ml.g5.4xlarge", Resources: map[string]string{"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "1"}, Price: 2},
	}
}

// StartKarpenter starts Karpenter with the provider whose nodes nobody runs (see StartKwok), and the types of nodes that it can
// make. Its kinds are there when it returns.
func (c *ControlPlane) StartKarpenter(t T, types ...InstanceType) {
	t.Helper()
	root, err := ModuleDir(t.Context(), "karpenter", "sigs.k8s.io/karpenter")
	if err != nil {
		t.Fatalf("karpenter: %v", err)
	}
	for _, crds := range []string{"pkg/apis/crds", "kwok/apis/crds"} {
		if _, err := c.Kubectl(t.Context(), "apply", "--server-side", "-f", filepath.Join(root, crds)); err != nil {
			t.Fatalf("kinds of karpenter: %v", err)
		}
	}
	if _, err := c.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"); err != nil {
		t.Fatalf("kinds of karpenter: %v", err)
	}
	metrics, err := FreePort(t.Context())
	if err != nil {
		t.Fatalf("karpenter: %v", err)
	}
	health, err := FreePort(t.Context())
	if err != nil {
		t.Fatalf("karpenter: %v", err)
	}
	file := c.file("instance-types.json")
	if err := writeInstanceTypes(file, types); err != nil {
		t.Fatalf("karpenter: %v", err)
	}
	log := c.file("karpenter.log")
	p, err := command{name: "karpenter", args: nil, log: log, ownMounts: false, env: []string{
		"KUBECONFIG=" + c.Kubeconfig(), "SYSTEM_NAMESPACE=kube-system", "CLUSTER_NAME=lab", "DISABLE_LEADER_ELECTION=true",
		fmt.Sprintf("METRICS_PORT=%d", metrics), fmt.Sprintf("HEALTH_PROBE_PORT=%d", health), "INSTANCE_TYPES_FILE_PATH=" + file,
	}}.start(t.Context(), karpenterTimeout, func(ctx context.Context) error {
		return answers(&http.Client{Timeout: 2 * time.Second}, "http://"+loopback(health)+"/readyz")(ctx)
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	atEnd(t, "karpenter", log, p.stop)
}

// writeInstanceTypes writes the file in the format of Karpenter's kwok provider (kwok/cloudprovider/helpers.go).
func writeInstanceTypes(file string, types []InstanceType) error {
	type requirement struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	}
	in := func(key, value string) requirement { return requirement{key, "In", []string{value}} }
	var list []map[string]any
	for _, it := range types {
		list = append(list, map[string]any{
			"name": it.Name, "architecture": "amd64", "operatingSystems": []string{"linux"}, "resources": it.Resources,
			"offerings": []map[string]any{{
				"Price": it.Price, "Available": true,
				"Requirements": []requirement{in("karpenter.sh/capacity-type", "on-demand"), in(corev1.LabelTopologyZone, "zone-a")},
			}},
		})
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return writeFile(file, text)
}

// ModuleDir is the folder of a Go module that a component is built from: what belongs to it is used as it is there.
func ModuleDir(ctx context.Context, tool, module string) (string, error) {
	root, err := RepoRoot()
	if err != nil {
		return "", err
	}
	out, err := run(ctx, filepath.Join(root, "integration", "tools", tool), []string{"GOWORK=off"}, "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(out), nil
}
