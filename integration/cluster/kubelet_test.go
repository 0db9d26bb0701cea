package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/image"
)

// service is where pods find the API server: the first address of the Services. Nobody runs a kube-proxy here.
const service = "10.232.0.1"

// settings are an overlay's settings, with other values.
func settings(t *testing.T, overlay string, values map[string]string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(manifests(t), overlay, "settings.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if key, _, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.HasPrefix(line, "  ") {
			if value, ok := values[key]; ok {
				line = "  " + key + ": " + fmt.Sprintf("%q", value) + "\n"
				delete(values, key)
			}
		}
		out = append(out, line)
	}
	if len(values) > 0 {
		t.Fatalf("no such settings: %v", values)
	}
	return strings.Join(out, "")
}

// withSettings gives a kustomization the settings of an overlay, with other values.
func withSettings(t *testing.T, dir, overlay string, values map[string]string) {
	t.Helper()
	file := filepath.Join(dir, "kustomization.yaml")
	k, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		file:                                strings.Replace(string(k), "resources: [", "resources: [settings.yaml, ", 1),
		filepath.Join(dir, "settings.yaml"): settings(t, overlay, values),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The DaemonSet as it is shipped, with the image that is shipped, run by a real kubelet: it labels its Node, opens the gate of a
// placeholder that the kubelet runs, answers through the API server, and goes on when containerd has restarted.
func TestTheAgentInItsPod(t *testing.T) {
	if !harness.InNamespaces(t, t.Name()) {
		return
	}
	harness.Addresses(t, service, harness.KubeletAddress)
	began := time.Now()
	l := newLab(t)
	t.Logf("control plane: %v", time.Since(began))
	harness.Forward(t, service+":443", strings.TrimPrefix(l.URL, "https://"))

	// A registry that node and pod both reach, under the name of the public one.
	l.reg = harness.NewRegistry(t, harness.RegistryOptions{})
	m := &harness.Machine{Registry: l.reg}
	for i, tag := range []string{"latest-cpu", "latest-gpu"} {
		m.Push(t, "sagemaker/sagemaker-distribution:"+tag, uint64(900+i), 64<<10, 256<<10)
	}
	harness.Forward(t, service+":5000", l.reg.Host())
	registries := harness.Dir(t)
	hosts := filepath.Join(registries, "certs.d", "public.ecr.aws")
	if err := os.MkdirAll(hosts, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(hosts, "hosts.toml"), []byte("server = \"http://"+service+":5000\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	rt := harness.NewContainerd(t, harness.ContainerdOptions{Pods: true, RegistryConfigPath: filepath.Join(registries, "certs.d")})
	agentImage := l.importImages(t, rt)
	l.StartKubelet(t, rt, map[string]string{"prewarm.dev/spaces": "true"})
	t.Logf("control plane, images and kubelet: %v", time.Since(began))

	overlay := "overlays/static-nodes"
	dir := kustomization(t, []string{"base/agent", "base/placeholder", "components/settings"}, "")
	withSettings(t, dir, overlay, map[string]string{
		"agentImage": agentImage, "runtimeFolder": rt.Dir, "runtimeEndpoint": rt.Endpoint(), "imagesFolder": rt.Root(), "registriesFolder": registries,
		"placeholderCPU": "10m", "placeholderMemory": "16Mi",
	})
	began = time.Now()
	l.kubectl(t, "apply", "--server-side", "-k", dir)
	l.kubectl(t, "scale", "deployment", "-n", pool, "spaces-placeholder-cpu", "--replicas=1")

	l.until(t, "the Node is labelled", func() error {
		n := l.nodes(t)[0]
		if n.Labels[node.LabelReady] != "true" {
			return fmt.Errorf("labels %v\n%s", n.Labels, l.agentLog(t))
		}
		return nil
	})
	t.Logf("DaemonSet applied → Node labelled: %v", time.Since(began))
	l.allWarm(t, 1)
	agent := l.pods(t, system, "app.kubernetes.io/component=agent")[0]
	l.until(t, "the agent's pod is ready", func() error {
		if agent = l.pods(t, system, "app.kubernetes.io/component=agent")[0]; !isReady(agent) {
			return fmt.Errorf("%+v", agent.Status.ContainerStatuses)
		}
		return nil
	})
	said := l.kubectl(t, "get", "--raw", "/api/v1/namespaces/"+system+"/pods/"+agent.Name+":9777/proxy/v1/status")
	if log := l.kubectl(t, "logs", "-n", system, agent.Name); !strings.Contains(log, "image is ready") || strings.Contains(log, "cannot make sure that no other agent") {
		t.Errorf("its log: %s", log)
	}
	var s status.Snapshot
	if err := json.Unmarshal([]byte(said), &s); err != nil {
		t.Fatal(err)
	}
	if !s.Ready || s.Runtime.Name != "containerd" || s.Node != harness.KubeletNode || len(s.Images) != 1 || s.Images[0].Room.Free == 0 {
		t.Errorf("through the API server's proxy the agent says %s\nwant it ready, and that it sees how much room there is", said)
	}

	l.statusOfAll(t, agent)

	// containerd makes a new socket when it restarts; the pods go on.
	if err := rt.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Crictl(within(t, patience), "rmi", "public.ecr.aws/sagemaker/sagemaker-distribution:latest-cpu"); err != nil {
		t.Fatal(err)
	}
	l.until(t, "after a restart of containerd a loss is seen", func() error {
		out, err := l.Kubectl(within(t, patience), "get", "events", "-n", "default", "-o", "jsonpath={range .items[*]}{.reason}{\"\\n\"}{end}")
		if err != nil || !strings.Contains(out, "ImageLost") {
			return fmt.Errorf("%w %s", err, out)
		}
		return nil
	})
	l.until(t, "and mended", func() error {
		if n := l.nodes(t)[0]; n.Labels[node.LabelReady] != "true" {
			return fmt.Errorf("labels %v", n.Labels)
		}
		return nil
	})
	if now := l.pods(t, system, "app.kubernetes.io/component=agent")[0]; now.UID != agent.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the agent's pod was started again: %+v", now.Status.ContainerStatuses)
	}

	l.kubectl(t, "delete", "daemonset", "-n", system, "prewarm", "--wait=false")
	l.until(t, "the agent's pod ends", func() error { return count("pods of the agent", len(l.allPods(t, system)), 0) })
	l.cleanImages(t, rt)
}

// cleanImages cleans up while a container was started from an image: that stays, and stays pinned, so that the next clean-up knows
// of it once the container is gone.
func (l *lab) cleanImages(t *testing.T, rt *harness.Containerd) {
	t.Helper()
	path, err := harness.Binary("prewarm")
	if err != nil {
		t.Fatal(err)
	}
	clean := func() string {
		t.Helper()
		out, err := harness.Run(within(t, patience), path, "cleanup", "--standalone", "--images", "--runtime-endpoint="+rt.Endpoint())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	// Nothing in the image can run: its container is made, and fails to start.
	l.create(t, `apiVersion: v1
kind: Pod
metadata: {name: user, namespace: default}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "public.ecr.aws/sagemaker/sagemaker-distribution:latest-cpu", command: [/none]}]
`)
	l.until(t, "there is a container of the image", func() error {
		out, err := rt.Crictl(within(t, patience), "ps", "--all", "--quiet", "--name", "^c$")
		if err == nil && strings.TrimSpace(out) == "" {
			err = errors.New("none")
		}
		return err
	})
	for range 2 {
		if out := clean(); !strings.Contains(out, "stays pinned until it is cleaned up again, since a container uses it: image sha256:") {
			t.Errorf("while a container uses it: %s", out)
		}
	}
	l.kubectl(t, "delete", "pod", "user", "--grace-period=0", "--force")
	l.until(t, "the container is gone, and then the image", func() error {
		if out := clean(); !strings.Contains(out, "removed image sha256:") {
			return errors.New(out)
		}
		return nil
	})
	if out := clean(); out != "nothing of prewarm is here\n" {
		t.Errorf("again: %s", out)
	}
}

func (l *lab) allPods(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	list, err := l.client.CoreV1().Pods(namespace).List(within(t, patience), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// agentLog is what the agent's pods say, and why they do not run.
func (l *lab) agentLog(t *testing.T) string {
	t.Helper()
	log, err := l.Kubectl(t.Context(), "logs", "-n", system, "-l", "app.kubernetes.io/component=agent", "--tail=30")
	events, everr := l.Kubectl(t.Context(), "get", "events", "-A")
	return fmt.Sprint(log, err, events, everr)
}

// importImages imports the image of sandboxes, and the agent's as `make image` has built it; it gives the name of the latter.
func (l *lab) importImages(t *testing.T, rt *harness.Containerd) string {
	t.Helper()
	pause, err := harness.Binary("pause")
	if err != nil {
		t.Fatal(err)
	}
	o := image.Options{Name: harness.PauseImage, Version: "test", Created: time.Unix(0, 0), Binaries: map[string]string{"linux/" + runtime.GOARCH: pause}}
	index, err := image.Build(o)
	if err != nil {
		t.Fatal(err)
	}
	dir := harness.Dir(t)
	if _, err := image.Write(index, o, dir); err != nil {
		t.Fatal(err)
	}
	var out string
	for _, archive := range []string{filepath.Join(dir, image.Archive), filepath.Join(filepath.Dir(pause), "image", image.Archive)} {
		if out, err = rt.Ctr(within(t, patience), "images", "import", archive); err != nil {
			t.Fatalf("%v (the agent's image is built with `make image`)", err)
		}
	}
	names, err := rt.Ctr(within(t, patience), "images", "ls", "-q")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`docker\.io/library/prewarm:\S+`).FindString(names)
	if name == "" {
		t.Fatalf("no name of the agent's image: %s", out)
	}
	return name
}

// statusOfAll asks all agents as a user who may list their pods and proxy to them, and no more.
func (l *lab) statusOfAll(t *testing.T, agent corev1.Pod) {
	t.Helper()
	l.create(t, `apiVersion: v1
kind: ServiceAccount
metadata: {name: sre, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: sre, namespace: prewarm-system}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [list]}
  - {apiGroups: [""], resources: [pods/proxy], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sre, namespace: prewarm-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: sre}
subjects: [{kind: ServiceAccount, name: sre, namespace: default}]
`)
	r, err := l.client.CoreV1().ServiceAccounts("default").CreateToken(within(t, patience), "sre", unbound(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path, err := harness.Binary("prewarm")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := l.kubeconfig(t, r.Status.Token)
	ask := func(args ...string) string {
		t.Helper()
		out, err := harness.Run(within(t, patience), path, append([]string{"status", "--kubeconfig=" + kubeconfig}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	table := ask()
	t.Logf("prewarm status:\n%s", table)
	for _, want := range []string{harness.KubeletNode, "yes", "sagemaker-distribution-cpu", "ready", "sha256:"} {
		if !strings.Contains(table, want) {
			t.Errorf("prewarm status lacks %q", want)
		}
	}
	var nodes []struct {
		Node, Pod string
		Status    status.Snapshot
	}
	if err := json.Unmarshal([]byte(ask("-o", "json")), &nodes); err != nil || len(nodes) != 1 || nodes[0].Pod != agent.Name || !nodes[0].Status.Ready {
		t.Errorf("%v, %+v", err, nodes)
	}
	if one := ask(harness.KubeletNode); !strings.Contains(one, "2 of 2 layers done") || strings.Contains(one, "\x1b") || !strings.Contains(one, "latest-cpu") {
		t.Errorf("of one node:\n%s", one)
	}
	if out, err := harness.Run(within(t, patience), path, "status", "--kubeconfig="+kubeconfig, "nosuch"); err == nil || !strings.Contains(err.Error(), "no agent runs on") {
		t.Errorf("of a node that is not there: %v %s", err, out)
	}
}
