package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

// smallNode is a machine whose images lie on a file system of so many bytes and files.
func smallNode(t *testing.T, bytes, files int64) (n *node, root string) {
	t.Helper()
	root = harness.SmallFS(t, bytes, files)
	c, err := harness.StartContainerd(t.Context(), filepath.Join(root, "c"), harness.ContainerdOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &node{Machine: &harness.Machine{Containerd: c, Registry: harness.NewRegistry(t, harness.RegistryOptions{})}, config: filepath.Join(t.TempDir(), "config.yaml")}, root
}

// Case 42 a and b: a pull that would leave too little for the kubelet is not begun, and the numbers are told; another image
// that has room is pulled; when room is made the first is too.
func TestADiskThatIsTooSmall(t *testing.T) {
	n, root := smallNode(t, 100*mib, 10000)
	// 4.8 times 10 MiB are needed, and 20 % of the disk must stay free.
	ballast := filepath.Join(root, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 50*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	large, largeRef := n.Push(t, "lab/large:1", 701, 10*mib)
	_, smallRef := n.Push(t, "lab/small:1", 702, 200*kib)
	n.configure(t, "large", largeRef, "small", smallRef)
	a := n.start(t)
	untilReady(t, a, "small")
	s := until(t, a, "large", "told to have no room", func(i status.ImageStatus) bool { return i.Reason == cri.ReasonDiskTooSmall })
	if s.Phase != cri.PhaseWaiting || s.Room.Need < 35*mib || s.Room.Keep < 19*mib || s.Room.Free > 50*mib || !strings.Contains(s.Message, root) {
		t.Errorf("%+v", s)
	}
	answers(t, a, "/metrics", 200, `prewarm_disk_bytes{image="large",kind="need"}`)
	if sent := n.Fetched(t, large.Layers...); sent != 0 {
		t.Errorf("%d bytes of it were fetched", sent)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(); err != nil { // a new agent looks at once; this one would within half a minute
		t.Error(err)
	}
	untilReady(t, n.start(t), "large", "small")
}

// Case 42 c: a disk that fills up in mid-pull, since the image unpacks to more than anybody thought, ends the pull with a
// reason; nothing of ours keeps what it took, and it is not tried again at once.
func TestADiskThatFillsUp(t *testing.T) {
	n, _ := smallNode(t, 30*mib, 10000)
	zeros := images.Spec{Layers: []images.LayerSpec{{Content: []images.Content{images.File("zeros", make([]byte, 40*mib))}}}}
	_, ref := harness.Push(t, n.Registry, "lab/zeros:1", zeros)
	n.configure(t, "zeros", ref)
	a := n.start(t)
	s := until(t, a, "zeros", "told that the disk is full", failed(cri.ReasonDiskFull))
	if !strings.Contains(s.Message, "no space left") {
		t.Errorf("message %q", s.Message)
	}
	answers(t, a, "/metrics", 200, fmt.Sprintf(`prewarm_pulls_total{image="zeros",reason=%q,result="failure"} 1`, cri.ReasonDiskFull))
	// The bytes themselves containerd gives back when it can: without any room it cannot even write down what it removes.
	if out := n.MustCtr(t, "leases", "ls", "-q") + n.MustCtr(t, "snapshots", "--snapshotter", n.Snapshotter, "ls"); strings.Contains(out, "prewarm/") || strings.Contains(out, "extract-") {
		t.Errorf("something is kept:\n%s", out)
	}
}

// Case 42 d: a file system can be full of files while it has bytes.
func TestAFileSystemWithoutInodes(t *testing.T) {
	n, _ := smallNode(t, 500*mib, 400)
	var many []images.Content
	for i := range 1000 {
		many = append(many, images.File(fmt.Sprintf("many/%d", i), []byte("x")))
	}
	_, ref := harness.Push(t, n.Registry, "lab/many:1", images.Spec{Layers: []images.LayerSpec{{Content: many}}})
	n.configure(t, "many", ref)
	until(t, n.start(t), "many", "told that the disk is full", failed(cri.ReasonDiskFull))
}
