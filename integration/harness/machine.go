package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prewarm-dev/prewarm/integration/images"
)

// Patience is how long anything may take that is not the subject of a test.
const Patience = 45 * time.Second

// Deadline is the test's context with an end to everybody's patience.
func Deadline(t T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), Patience, errors.New("the test's patience is over"))
	t.Cleanup(cancel)
	return ctx
}

// Eventually asks until cond is true.
func Eventually(t T, what string, cond func() bool) {
	t.Helper()
	err := Poll(Deadline(t), func(context.Context) error {
		if !cond() {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Machine is a containerd and a registry beside it.
type Machine struct {
	*Containerd

	Registry *Registry
}

// NewMachine starts both for a test.
func NewMachine(t T, o ContainerdOptions) *Machine {
	t.Helper()
	return &Machine{Containerd: NewContainerd(t, o), Registry: NewRegistry(t, RegistryOptions{})}
}

// Push builds an image of layers of these sizes, in bytes, that no compression makes smaller, and pushes it as
// repository:tag. Images with the same seed share the layers of the same place and size.
func (m *Machine) Push(t T, name string, seed uint64, sizes ...int64) (*images.Image, string) {
	t.Helper()
	var spec images.Spec
	for i, size := range sizes {
		content := images.Random(fmt.Sprintf("data/%d", i), seed+uint64(i), size)
		spec.Layers = append(spec.Layers, images.LayerSpec{Content: []images.Content{content}})
	}
	return Push(t, m.Registry, name, spec)
}

// Fetched is how many bytes of layers the registry has sent since it was last told to forget, once it has answered all.
func (m *Machine) Fetched(t T, layers ...images.Layer) int64 {
	t.Helper()
	err := m.Registry.Wait(Deadline(t), func(l Requests) bool {
		return !slices.ContainsFunc(l, func(r Request) bool { return !r.Done })
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	var sum int64
	for _, l := range layers {
		sum += m.Registry.Served(l.Digest)
	}
	return sum
}

// MustCrictl runs crictl, which must go well, and gives what it printed.
func (m *Machine) MustCrictl(t T, args ...string) string {
	t.Helper()
	out, err := m.Crictl(Deadline(t), args...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

// MustCtr runs ctr, which must go well, and gives what it printed.
func (m *Machine) MustCtr(t T, args ...string) string {
	t.Helper()
	out, err := m.Ctr(Deadline(t), args...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}
