// Package runtime_test holds package cri to a real containerd and a real registry.
package runtime_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
	"github.com/prewarm-dev/prewarm/integration/images"
)

const (
	// patience is how long anything may take that is not the subject of a test.
	patience = 45 * time.Second
	// often is the time between two looks at the runtime where a test wants to see much of a pull.
	often = 20 * time.Millisecond
	kib   = 1 << 10
	mib   = 1 << 20
)

// node is a containerd, a registry beside it, and a connection to containerd.
type node struct {
	*harness.Containerd

	reg *harness.Registry
	cri *cri.Runtime
}

func newNode(t *testing.T, o harness.ContainerdOptions) *node {
	t.Helper()
	return joinNode(t, harness.NewRegistry(t, harness.RegistryOptions{}), o)
}

func joinNode(t *testing.T, reg *harness.Registry, o harness.ContainerdOptions) *node {
	t.Helper()
	c := harness.NewContainerd(t, o)
	return &node{Containerd: c, reg: reg, cri: connect(t, cri.Options{RuntimeEndpoint: c.Endpoint()})}
}

func connect(t *testing.T, o cri.Options) *cri.Runtime {
	t.Helper()
	r, err := cri.Connect(deadline(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close the connection: %v", err)
		}
	})
	return r
}

// deadline is the test's context with an end to everybody's patience.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the test's patience is over"))
	t.Cleanup(cancel)
	return ctx
}

func parse(t *testing.T, s string) cri.Reference {
	t.Helper()
	ref, err := cri.ParseReference(s)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// push builds an image, pushes it as repository:tag, and resolves it. The registry's list of requests is empty afterwards.
func (n *node) push(t *testing.T, name string, s images.Spec) (*images.Image, cri.Image) {
	t.Helper()
	built, ref := harness.Push(t, n.reg, name, s)
	return built, n.resolve(t, ref)
}

// resolve resolves a reference and forgets what the registry was asked for it.
func (n *node) resolve(t *testing.T, ref string) cri.Image {
	t.Helper()
	img, err := n.cri.Resolve(deadline(t), parse(t, ref), nil)
	if err != nil {
		t.Fatal(err)
	}
	n.settled(t)
	n.reg.Forget()
	return img
}

// pull pulls an image, which must go well, and holds what the pull shows to the rules of progress.
func (n *node) pull(t *testing.T, img cri.Image) []cri.Progress {
	t.Helper()
	seen, err := tryPull(deadline(t), n.cri, img, cri.PullOptions{Interval: often})
	if err != nil {
		t.Fatalf("pull: %v", err)
	}
	holdProgress(t, img, seen)
	holdEnd(t, seen[len(seen)-1])
	return seen
}

// tryPull pulls to the end and gives all that was shown.
func tryPull(ctx context.Context, r *cri.Runtime, img cri.Image, o cri.PullOptions) (seen []cri.Progress, err error) {
	for p, e := range r.Pull(ctx, img, o) {
		if err != nil {
			return seen, errors.Join(errors.New("something follows the error"), err)
		}
		seen, err = append(seen, p), e
	}
	return seen, err
}

// ready wants the image to be ready, proved by its snapshots.
func (n *node) ready(t *testing.T, img cri.Image) {
	t.Helper()
	if check, err := n.cri.Verify(deadline(t), img); err != nil || check != cri.VerifiedSnapshots {
		t.Fatalf("Verify: %q, %v, want %q", check, err, cri.VerifiedSnapshots)
	}
}

// notReady wants Verify to fail for a reason.
func (n *node) notReady(t *testing.T, img cri.Image, reason error) {
	t.Helper()
	if check, err := n.cri.Verify(deadline(t), img); !errors.Is(err, reason) {
		t.Fatalf("Verify: %q, %v, want %s", check, err, cri.ReasonOf(reason))
	}
}

// plan gives what pulls of the images would do.
func (n *node) plan(t *testing.T, imgs ...cri.Image) cri.Plan {
	t.Helper()
	p, err := n.cri.Plan(deadline(t), imgs...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// settled waits until the registry has answered all requests, and lists them.
func (n *node) settled(t *testing.T) harness.Requests {
	t.Helper()
	err := n.reg.Wait(deadline(t), func(l harness.Requests) bool {
		return !slices.ContainsFunc(l, func(r harness.Request) bool { return !r.Done })
	})
	if err != nil {
		t.Fatal(err)
	}
	return n.reg.Requests()
}

// fetched is how many bytes of layers the registry has sent since it was last told to forget.
func (n *node) fetched(t *testing.T, layers ...images.Layer) int64 {
	t.Helper()
	var sum int64
	seen := map[digest.Digest]bool{}
	list := n.settled(t)
	for _, l := range layers {
		if !seen[l.Digest] {
			seen[l.Digest] = true
			sum += list.Filter(harness.GetBlob(l.Digest)).Bytes()
		}
	}
	return sum
}

func (n *node) ctr(t *testing.T, args ...string) string {
	t.Helper()
	out, err := n.Ctr(deadline(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (n *node) crictl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := n.Crictl(deadline(t), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// collect makes containerd collect garbage and waits for it: the end of any lease does that.
func (n *node) collect(t *testing.T) {
	t.Helper()
	n.ctr(t, "leases", "create", "--id", "test/collect")
	n.ctr(t, "leases", "rm", "--sync", "test/collect")
}

// hasBlob tells whether a blob is in containerd's content store.
func (n *node) hasBlob(t *testing.T, d digest.Digest) bool {
	t.Helper()
	return slices.Contains(strings.Fields(n.ctr(t, "content", "ls", "-q")), d.String())
}

// removeTop removes the snapshot of the uppermost layer behind everybody's back.
func (n *node) removeTop(t *testing.T, img cri.Image) digest.Digest {
	t.Helper()
	top := img.Layers[len(img.Layers)-1].ChainID
	n.ctr(t, "snapshots", "--snapshotter", n.Snapshotter, "rm", top.String())
	return top
}

// random is a layer of so many bytes that no compression makes smaller.
func random(seed uint64, size int64) images.LayerSpec {
	return images.LayerSpec{Content: []images.Content{images.Random("data/"+string(rune('a'+seed%26)), seed, size)}}
}

// layers is an image of these layers.
func layers(l ...images.LayerSpec) images.Spec { return images.Spec{Layers: l} }

// sum is the size of distinct layers, as their manifest has it, in bytes.
func sum(l ...images.Layer) int64 {
	sizes := map[digest.Digest]int64{}
	for _, x := range l {
		sizes[x.Digest] = x.Size
	}
	var n int64
	for _, size := range sizes {
		n += size
	}
	return n
}

// eventually asks until cond is true.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	err := harness.Poll(deadline(t), func(context.Context) error {
		if !cond() {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
