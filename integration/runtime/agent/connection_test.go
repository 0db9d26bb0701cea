package agent_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// wire is a socket in front of containerd's. To who connects by it, cutting it is what a crash of containerd is, while
// containerd itself still does what it is told.
type wire struct {
	path, to string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	wg       sync.WaitGroup
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	w := &wire{path: filepath.Join(harness.Dir(t), "wire.sock"), to: to, conns: map[net.Conn]bool{}}
	w.mend(t)
	t.Cleanup(w.cut)
	return w
}

// mend lets connections through.
func (w *wire) mend(t *testing.T) {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", w.path)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listener = l
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // it is cut
			}
			w.wg.Go(func() { w.carry(c) })
		}
	})
}

// carry copies between one connection and containerd until either ends.
func (w *wire) carry(c net.Conn) {
	var d net.Dialer
	far, err := d.DialContext(context.Background(), "unix", w.to) // cut ends it, not the test's context
	if err != nil {
		_ = c.Close()
		return
	}
	w.mu.Lock()
	w.conns[c], w.conns[far] = true, true
	w.mu.Unlock()
	var both sync.WaitGroup
	for _, ends := range [][2]net.Conn{{c, far}, {far, c}} {
		both.Go(func() {
			_, _ = io.Copy(ends[0], ends[1])
			_, _ = c.Close(), far.Close()
		})
	}
	both.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
	delete(w.conns, far)
}

// cut ends every connection and takes the socket away. A second time it does nothing.
func (w *wire) cut() {
	w.mu.Lock()
	_ = w.listener.Close()
	for c := range w.conns {
		_ = c.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// away waits until the agent tells that the runtime does not answer.
func away(t *testing.T, a *harness.Agent) {
	t.Helper()
	if _, err := a.Until(harness.Deadline(t), "the runtime is away", func(s status.Snapshot) bool { return s.RuntimeError != "" }); err != nil {
		t.Fatal(err)
	}
}

// back waits until it answers again and all images are ready.
func back(t *testing.T, a *harness.Agent) status.Snapshot {
	t.Helper()
	s, err := a.Until(harness.Deadline(t), "the runtime is back", func(s status.Snapshot) bool { return s.RuntimeError == "" && s.Ready })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is deleted while the agent cannot hear of it is seen as soon as it can; until then nothing is claimed, and what was
// not touched costs nothing.
func TestADeletionThatNobodyHeardOf(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	gone, goneRef := n.Push(t, "lab/gone:1", 261, 300*kib)
	stays, staysRef := n.Push(t, "lab/stays:1", 262, 300*kib)
	n.configure(t, "gone", goneRef, "stays", staysRef)
	w := newWire(t, n.Socket())
	a := n.start(t, "--runtime-endpoint=unix://"+w.path)
	before := untilReady(t, a, "gone", "stays")
	w.cut()
	away(t, a)
	answers(t, a, "/readyz", http.StatusServiceUnavailable, "container runtime")
	n.MustCrictl(t, "rmi", goneRef)
	if s, err := a.Status(harness.Deadline(t)); err != nil || !s.Ready {
		t.Errorf("ready %v, %v: want what was known to be told until the runtime can be asked", s.Ready, err)
	}
	n.Registry.Forget()
	w.mend(t)
	until(t, a, "gone", "pulled again", func(i status.ImageStatus) bool { return ready(i) && i.StartedAt.After(before[0].StartedAt) })
	back(t, a)
	answers(t, a, "/readyz", http.StatusOK)
	if sent := n.Fetched(t, gone.Layers...); sent != gone.Size()-gone.Config.Size-gone.Descriptor.Size {
		t.Errorf("%d bytes of the image that was deleted were fetched", sent)
	}
	if sent := n.Fetched(t, stays.Layers...); sent != 0 {
		t.Errorf("%d bytes of the image that was not deleted were fetched", sent)
	}
	answers(t, a, "/metrics", http.StatusOK, `prewarm_images_lost_total{image="gone",reason="NotPresent"} 1`, "prewarm_runtime_reconnects_total 1")
	if _, body, err := a.Get(harness.Deadline(t), "/metrics"); err != nil || strings.Contains(body, `prewarm_images_lost_total{image="stays"`) {
		t.Errorf("what was not touched is told to have been lost: %v", err)
	}
}

// A restart of containerd while nothing is being pulled changes nothing, not even the time since when images are ready.
func TestContainerdIsRestartedWhileAllIsReady(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, ref := n.Push(t, "lab/a:1", 265, 300*kib, 300*kib)
	n.configure(t, "a", ref)
	a := n.start(t)
	before := untilReady(t, a, "a")[0]
	watched := watch(t, a)
	n.Registry.Forget()
	for how, restart := range map[string]func() error{
		"stopped": n.Stop,
		"killed":  func() error { n.Kill(); return nil },
	} {
		if err := restart(); err != nil {
			t.Fatal(err)
		}
		away(t, a)
		if err := n.Restart(harness.Deadline(t)); err != nil {
			t.Fatal(err)
		}
		now, _ := back(t, a).Image("a")
		if !now.ReadyAt.Equal(before.ReadyAt) || !now.StartedAt.Equal(before.StartedAt) {
			t.Errorf("%s: ready since %v, pulled at %v; before %v and %v", how, now.ReadyAt, now.StartedAt, before.ReadyAt, before.StartedAt)
		}
	}
	for len(watched) > 0 {
		if i := <-watched; !ready(i) {
			t.Errorf("there was a moment in which it was not ready: %+v", i)
		}
	}
	if list := n.Registry.Requests(); len(list) > 0 {
		t.Errorf("the registry was asked:\n%s", list)
	}
	answers(t, a, "/healthz", http.StatusOK)
}

// A containerd that has come to a halt keeps nobody from asking the agent, nor the agent from ending in time (see
// harness.Agent.Stop), even within a pull.
func TestAContainerdThatHangs(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	img, ref := n.Push(t, "lab/a:1", 268, 8*mib)
	n.Registry.Inject(harness.GetBlob(img.Layers[0].Digest), harness.Rate(mib))
	n.configure(t, "a", ref)
	a := n.start(t)
	n.inMidLayer(t, img.Layers[0], mib)
	signal(t, n, syscall.SIGSTOP)
	t.Cleanup(func() { signal(t, n, syscall.SIGCONT) }) // or it could not be stopped
	answers(t, a, "/healthz", http.StatusOK)
	if s, err := a.Status(harness.Deadline(t)); err != nil || s.Images[0].Phase != cri.PhasePulling {
		t.Errorf("%+v, %v", s, err)
	}
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
}

func signal(t *testing.T, n *node, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(n.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("%v to containerd: %v", s, err)
	}
}
