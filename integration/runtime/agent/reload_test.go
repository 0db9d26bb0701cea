package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// The configuration changes while the agent runs: images come, go and change; a bad one changes nothing and is told.
func TestTheConfigurationIsReloaded(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, x := n.Push(t, "lab/x:1", 301, 300*kib)
	_, y := n.Push(t, "lab/y:1", 302, 300*kib)
	_, y2 := n.Push(t, "lab/y:2", 303, 300*kib)
	n.configure(t, "x", x)
	a := n.start(t)
	untilReady(t, a, "x")
	n.configure(t, "x", x, "y", y)
	untilReady(t, a, "y")

	n.write(t, "apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\nimages: [{name: X, reference: https://a/b}]\n")
	s, err := a.Until(harness.Deadline(t), "the bad one is told", func(s status.Snapshot) bool { return s.Configuration.Error != "" })
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{n.config, "images[0].name", "images[0].reference", ":3:17"} {
		if !strings.Contains(s.Configuration.Error, word) {
			t.Errorf("the error does not say %q: %s", word, s.Configuration.Error)
		}
	}
	if !s.Ready || len(s.Images) != 2 {
		t.Errorf("the last good one is not in force any more: %+v", s)
	}

	n.configure(t, "y", y2)
	s, err = a.Until(harness.Deadline(t), "x is gone and y is another", func(s status.Snapshot) bool {
		i, _ := s.Image("y")
		return s.Configuration.Error == "" && len(s.Images) == 1 && i.Reference == y2 && ready(i)
	})
	if err != nil {
		t.Fatal(err)
	}
	images := n.MustCrictl(t, "images")
	if !strings.Contains(images, "lab/x") {
		t.Errorf("an image that is not wanted any more was removed, which is the kubelet's to do:\n%s", images)
	}
	harness.Eventually(t, "only what is wanted is pinned", func() bool {
		return strings.Count(n.MustCtr(t, "images", "ls", `labels."prewarm.dev/owner"==y`), "prewarm.dev/owner=y") == 2 &&
			!strings.Contains(n.MustCtr(t, "images", "ls"), "prewarm.dev/owner=x")
	})
}

// A ConfigMap volume changes by a link that is swapped.
func TestAConfigMapIsReloaded(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, x := n.Push(t, "lab/x:1", 311, 100*kib)
	_, y := n.Push(t, "lab/y:1", 312, 100*kib)
	volume := t.TempDir()
	put := func(version, name, ref string) {
		t.Helper()
		dir := filepath.Join(volume, version)
		text := fmt.Sprintf("apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\nimages: [{name: %s, reference: %q}]\n", name, ref)
		for _, err := range []error{
			os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o644),
			os.Symlink(version, filepath.Join(volume, "..new")), os.Rename(filepath.Join(volume, "..new"), filepath.Join(volume, "..data")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	put("..1", "x", x)
	n.config = filepath.Join(volume, "config.yaml")
	if err := os.Symlink("..data/config.yaml", n.config); err != nil {
		t.Fatal(err)
	}
	a := n.start(t)
	untilReady(t, a, "x")
	put("..2", "y", y)
	untilReady(t, a, "y")
}
