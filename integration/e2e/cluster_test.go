// Package e2e_test holds the built binary, run as the agent of a node, to a real API server, containerd and registry.
package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// patience is how long anything may take that is not the subject of a test.
const patience = 45 * time.Second

// labels are the labels of a Node, or some of them.
type labels = map[string]string

// cluster is an API server and the way to it as its administrator.
type cluster struct {
	*harness.APIServer

	client kubernetes.Interface
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	s := harness.NewAPIServer(t)
	config := s.Config()
	config.QPS = -1 // a test that writes in a tight loop means it
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{APIServer: s, client: client}
}

// createNode creates a Node as a kubelet does.
func (c *cluster) createNode(t *testing.T, name string, l labels) *corev1.Node {
	t.Helper()
	n, err := c.CreateNode(deadline(t), name, l)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (c *cluster) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := c.client.CoreV1().Nodes().Get(deadline(t), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// label changes labels of a Node as kubectl label does: a value of "-" removes the label.
func (c *cluster) label(t *testing.T, name string, l labels) {
	t.Helper()
	var pairs []string
	for key, value := range l {
		if value == "-" {
			pairs = append(pairs, fmt.Sprintf("%q:null", key))
		} else {
			pairs = append(pairs, fmt.Sprintf("%q:%q", key, value))
		}
	}
	body := `{"metadata":{"labels":{` + strings.Join(pairs, ",") + `}}}`
	_, err := c.client.CoreV1().Nodes().Patch(deadline(t), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "kubectl-label"})
	if err != nil {
		t.Fatal(err)
	}
}

// machine is what an agent works on: a containerd, a registry, a file with the configuration, and the name of a Node.
type machine struct {
	*harness.Containerd

	cluster *cluster
	reg     *harness.Registry
	name    string
	config  string
}

// newMachine makes a machine whose Node is not created yet.
func (c *cluster) newMachine(t *testing.T, name string) *machine {
	t.Helper()
	return &machine{
		Containerd: harness.NewContainerd(t, harness.ContainerdOptions{}), cluster: c,
		reg: harness.NewRegistry(t, harness.RegistryOptions{}), name: name, config: filepath.Join(harness.Dir(t), "config.yaml"),
	}
}

// joinMachine makes a machine and its Node.
func (c *cluster) joinMachine(t *testing.T, name string, l labels) *machine {
	t.Helper()
	c.createNode(t, name, l)
	return c.newMachine(t, name)
}

// entry is one image of a configuration.
type entry struct {
	name, reference string
	// more are further fields in YAML's flow style; may be empty.
	more string
}

// configure writes the configuration at one go, as the kubelet does.
func (m *machine) configure(t *testing.T, entries ...entry) {
	t.Helper()
	var b strings.Builder
	b.WriteString("apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\nimages:\n")
	for _, e := range entries {
		fmt.Fprintf(&b, "  - {name: %s, reference: %q", e.name, e.reference)
		if e.more != "" {
			b.WriteString(", " + e.more)
		}
		b.WriteString("}\n")
	}
	m.writeConfig(t, b.String())
}

func (m *machine) writeConfig(t *testing.T, text string) {
	t.Helper()
	next := m.config + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, m.config); err != nil {
		t.Fatal(err)
	}
}

// image is an image in the machine's registry.
type image struct {
	*images.Image
	entry
}

// push makes an image of two layers of half a megabyte each, which no other name has, and pushes it as lab/<name>:1.
func (m *machine) push(t *testing.T, name string) image {
	t.Helper()
	var spec images.Spec
	for i := range 2 {
		file := fmt.Sprintf("data/%s-%d", name, i)
		spec.Layers = append(spec.Layers, images.LayerSpec{Content: []images.Content{
			images.File(file+".txt", []byte(file)), images.Random(file, uint64(i), 512<<10),
		}})
	}
	built, ref := harness.Push(t, m.reg, "lab/"+name+":1", spec)
	return image{Image: built, entry: entry{name: name, reference: ref}}
}

func (i image) key() string { return node.LabelImagePrefix + i.name }

// removeTop removes the snapshot of an image's uppermost layer behind CRI's back.
func (m *machine) removeTop(t *testing.T, i image) {
	t.Helper()
	var diffIDs []digest.Digest
	for _, l := range i.Layers {
		diffIDs = append(diffIDs, l.DiffID)
	}
	top := identity.ChainID(diffIDs).String()
	if _, err := m.Ctr(deadline(t), "snapshots", "--snapshotter", m.Snapshotter, "rm", top); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) crictl(t *testing.T, args ...string) {
	t.Helper()
	if _, err := m.Crictl(deadline(t), args...); err != nil {
		t.Fatal(err)
	}
}

// said are the labels that a Node has while these images are ready on it, and the node as a whole or not.
func said(ready bool, present ...image) labels {
	l := labels{}
	for _, i := range present {
		l[i.key()] = i.Descriptor.Digest.Encoded()[:12]
	}
	if ready {
		l[node.LabelReady] = "true"
	}
	return l
}

// ours picks the labels that only the agent writes.
func ours(all labels) labels {
	l := labels{}
	for key, value := range all {
		if key == node.LabelReady || strings.HasPrefix(key, node.LabelImagePrefix) {
			l[key] = value
		}
	}
	return l
}

// deadline is the test's context with an end to everybody's patience.
func deadline(t *testing.T) context.Context {
	t.Helper()
	return within(t, patience)
}

// within is the test's context with a time limit.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errors.New("did not come within "+d.String()))
	t.Cleanup(cancel)
	return ctx
}
