// Package agent_test holds the agent, as the binary that is built, to a real containerd and a real registry, without
// Kubernetes.
package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

const (
	// atOnce is how soon the agent must tell that an image is lost.
	atOnce = time.Second
	kib    = 1 << 10
	mib    = 1 << 20
)

// node is a machine: a containerd, a registry beside it, and a configuration.
type node struct {
	*harness.Machine

	config string
}

func newNode(t *testing.T, o harness.ContainerdOptions) *node {
	t.Helper()
	return &node{Machine: harness.NewMachine(t, o), config: filepath.Join(t.TempDir(), "config.yaml")}
}

// configure writes the configuration; the images are pairs of name and reference.
func (n *node) configure(t *testing.T, pairs ...string) {
	t.Helper()
	text := "apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\nimages:\n"
	for p := range slices.Chunk(pairs, 2) {
		text += fmt.Sprintf("  - {name: %s, reference: %q}\n", p[0], p[1])
	}
	n.write(t, text)
}

func (n *node) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(n.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// start starts an agent of this machine.
func (n *node) start(t *testing.T, flags ...string) *harness.Agent {
	t.Helper()
	return harness.NewAgent(t, append([]string{"--standalone", "--config=" + n.config, "--runtime-endpoint=" + n.Endpoint()}, flags...)...)
}

// until waits for a state of one image and gives it.
func until(t *testing.T, a *harness.Agent, image, what string, cond func(status.ImageStatus) bool) status.ImageStatus {
	t.Helper()
	s, err := a.Until(harness.Deadline(t), image+" is "+what, func(s status.Snapshot) bool {
		i, ok := s.Image(image)
		return ok && cond(i)
	})
	if err != nil {
		t.Fatal(err)
	}
	i, _ := s.Image(image)
	return i
}

func ready(i status.ImageStatus) bool { return i.Phase == cri.PhaseReady }

func untilReady(t *testing.T, a *harness.Agent, names ...string) (states []status.ImageStatus) {
	t.Helper()
	for _, name := range names {
		states = append(states, until(t, a, name, "ready", ready))
	}
	return states
}

// failed wants an image to be told to have failed, for a reason.
func failed(reason cri.Reason) func(status.ImageStatus) bool {
	return func(i status.ImageStatus) bool { return i.Phase == cri.PhaseFailed && i.Reason == reason }
}

// answers wants a status code, and words in the body, of a path now.
func answers(t *testing.T, a *harness.Agent, path string, want int, words ...string) {
	t.Helper()
	code, body, err := a.Get(harness.Deadline(t), path)
	if err != nil {
		t.Fatal(err)
	}
	if code != want {
		t.Errorf("%s: %d, want %d\n%s", path, code, want, body)
	}
	for _, w := range words {
		if !strings.Contains(body, w) {
			t.Errorf("%s does not say %q:\n%s", path, w, body)
		}
	}
}

// inMidLayer waits until the registry has sent so many bytes of one layer, and then some time for them to be written.
func (n *node) inMidLayer(t *testing.T, l images.Layer, bytes int64) {
	t.Helper()
	harness.Eventually(t, "the pull is in mid-layer", func() bool {
		out := n.MustCtr(t, "content", "active")
		return strings.Contains(out, l.Digest.Encoded()[:12]) && n.Registry.Served(l.Digest) >= bytes
	})
}
