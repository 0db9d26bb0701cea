package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const kubeletTimeout = time.Minute

// KubeletAddress is that of the kubelet's Node; give it to the loopback interface (Addresses). A Node may not have 127.0.0.1.
const KubeletAddress = "10.234.0.1"

// KubeletNode is the name of the kubelet's Node: the API server finds the kubelet by it.
const KubeletNode = "localhost"

// kubeletConfig works where root may not raise priorities and cgroups are of the first version.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
podLogsDir: %[1]s/logs
address: 127.0.0.1
port: %[2]d
readOnlyPort: 0
healthzPort: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[3]s}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: %[4]s
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /%[5]s
cgroupsPerQOS: true
enforceNodeAllocatable: []
oomScoreAdj: 0
failSwapOn: false
makeIPTablesUtilChains: false
evictionHard: {nodefs.available: "0%%", imagefs.available: "0%%", memory.available: "1Mi", nodefs.inodesFree: "0%%", imagefs.inodesFree: "0%%"}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 2s
syncFrequency: 2s
resolvConf: ""
volumePluginDir: %[1]s/plugins
`

// StartKubelet starts a kubelet on a containerd that can run pods (ContainerdOptions.Pods), and waits until its Node is Ready. Its
// pods, mounts and cgroups are gone when the test ends.
func (c *ControlPlane) StartKubelet(t T, runtime *Containerd, labels map[string]string) {
	t.Helper()
	dir := Dir(t)
	port, err := FreePort(t.Context())
	if err != nil {
		t.Fatalf("kubelet: %v", err)
	}
	group := filepath.Base(dir)
	t.Cleanup(func() { removeCgroups(t, group) })
	if err := makeCgroups(group); err != nil {
		t.Fatalf("kubelet: %v", err)
	}
	config, log := filepath.Join(dir, "kubelet.yaml"), filepath.Join(dir, "kubelet.log")
	text := fmt.Sprintf(kubeletConfig, dir, port, c.file("kubelet-ca.crt"), runtime.Endpoint(), group)
	if err := writeFile(config, []byte(text)); err != nil {
		t.Fatalf("kubelet: %v", err)
	}
	var pairs []string
	for key, value := range labels {
		pairs = append(pairs, key+"="+value)
	}
	p, err := command{name: "kubelet", log: log, env: nil, ownMounts: false, args: []string{
		"--config=" + config, "--kubeconfig=" + c.Kubeconfig(), "--root-dir=" + filepath.Join(dir, "root"), "--cert-dir=" + filepath.Join(dir, "certs"),
		"--hostname-override=" + KubeletNode, "--node-ip=" + KubeletAddress, "--node-labels=" + strings.Join(pairs, ","), "--v=1",
	}}.start(t.Context(), kubeletTimeout, c.nodeReady)
	if err != nil {
		t.Fatalf("%v", err)
	}
	atEnd(t, "kubelet", log, func() error {
		err := p.stop()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
		defer cancel()
		if _, perr := runtime.Crictl(ctx, "rmp", "--all", "--force"); perr != nil {
			t.Logf("pods: %v", perr)
		}
		return errors.Join(err, unmountUnder(dir))
	})
}

// unmountUnder unmounts what is mounted in a folder: the kubelet mounts its own on itself, and the volumes of pods.
func unmountUnder(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			errs = append(errs, unix.Unmount(f[4], unix.MNT_DETACH))
		}
	}
	return errors.Join(errs...)
}

// nodeReady wants the kubelet's Node to be Ready.
func (c *ControlPlane) nodeReady(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	n, err := client.CoreV1().Nodes().Get(ctx, KubeletNode, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not Ready", KubeletNode)
}

const cgroups = "/sys/fs/cgroup"

// cgroupHierarchies are the folders of the cgroup file systems: one for each controller, or one alone.
func cgroupHierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil {
		return []string{cgroups}, nil
	}
	list, err := os.ReadDir(cgroups)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, entry := range list {
		if entry.IsDir() {
			out = append(out, filepath.Join(cgroups, entry.Name()))
		}
	}
	return out, nil
}

// makeCgroups makes the kubelet's root in every hierarchy; a set of processors must be given what it may use.
func makeCgroups(name string) error {
	list, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, h := range list {
		folder := filepath.Join(h, name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(h, file))
			if err != nil {
				continue // it is not the hierarchy of these
			}
			if err := os.WriteFile(filepath.Join(folder, file), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroups removes what the kubelet and its pods have made, the innermost first.
func removeCgroups(t T, name string) {
	t.Helper()
	list, err := cgroupHierarchies()
	if err != nil {
		t.Errorf("cgroups: %v", err)
		return
	}
	for _, h := range list {
		if err := removeCgroup(filepath.Join(h, name)); err != nil {
			t.Errorf("a cgroup is left: %v", err)
		}
	}
}

func removeCgroup(folder string) error {
	list, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range list {
		if entry.IsDir() {
			if err := removeCgroup(filepath.Join(folder, entry.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(folder)
}
