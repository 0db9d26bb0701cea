package e2e_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// reconnected is the time from a runtime's being back to the label of what was lost meanwhile being gone.
const reconnected = 15 * time.Second

func TestRuntimeAway(t *testing.T) {
	c := newCluster(t)
	t.Run("and the labels stay over a restart", func(t *testing.T) { runtimeRestarts(t, c) })
	t.Run("and what is lost meanwhile is told after", func(t *testing.T) { lostWithoutRuntime(t, c) })
	t.Run("when the agent starts", func(t *testing.T) { runtimeComesLater(t, c) })
}

func away(s status.Snapshot) bool { return s.RuntimeError != "" }

func there(s status.Snapshot) bool { return s.RuntimeError == "" && s.Runtime.Name != "" }

func runtimeRestarts(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "restarts", nil)
	i := m.push(t, "a")
	m.configure(t, i.entry)
	o := m.observe(t)
	a := m.start(t)
	all := said(true, i)
	o.says(t, 0, all)
	skip := o.count()
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	s := a.until(t, "the runtime is away", away)
	if !s.Ready {
		t.Error("the node is not ready: a runtime that cannot be asked proves no loss")
	}
	a.answers(t, "/readyz", http.StatusServiceUnavailable, "the container runtime does not answer")
	a.answers(t, "/healthz", http.StatusOK)
	o.quiet(t, time.Second)
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.until(t, "the runtime is back", there)
	a.answers(t, "/readyz", http.StatusOK)
	o.quiet(t, time.Second)
	o.unchanged(t, skip, all)
	m.crictl(t, "rmi", i.reference) // the events flow again
	o.says(t, skip, labels{})
	o.says(t, skip+1, all)
}

// lostWithoutRuntime cuts the agent off from its runtime, which lives on, and removes an image.
func lostWithoutRuntime(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "cut-off", nil)
	i, j := m.push(t, "a"), m.push(t, "b")
	m.configure(t, i.entry, j.entry)
	o := m.observe(t)
	socket := filepath.Join(harness.Dir(t), "p.sock")
	p := relay(t, socket, m.Socket())
	a := m.start(t, "--runtime-endpoint=unix://"+socket)
	o.says(t, 0, said(true, i, j))
	skip := o.count()
	p.stop(t)
	a.until(t, "the runtime is away", away)
	m.reg.Inject(harness.GetBlob(""), harness.Status(http.StatusServiceUnavailable))
	m.crictl(t, "rmi", i.reference)
	o.quiet(t, time.Second)
	relay(t, socket, m.Socket())
	back := time.Now()
	took := o.says(t, skip, said(false, j)).at.Sub(back)
	t.Logf("labels right %v after the runtime was back", took)
	if took > reconnected {
		t.Errorf("the labels were right %v after the runtime was back, want at most %v", took, reconnected)
	}
	a.until(t, "the runtime is back", there)
}

// runtimeComesLater holds that labels which an earlier agent has left stay until the runtime can be asked.
func runtimeComesLater(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "later", nil)
	i := m.push(t, "a")
	m.configure(t, i.entry)
	m.crictl(t, "pull", i.reference)
	all := said(true, i)
	c.label(t, m.name, all)
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	o := m.observe(t)
	a := m.start(t)
	a.until(t, "the runtime is away", away)
	a.answers(t, "/readyz", http.StatusServiceUnavailable, "the container runtime does not answer")
	o.quiet(t, time.Second)
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.until(t, "the node is ready", func(s status.Snapshot) bool { return s.Ready })
	o.conditioned(t, 0, corev1.ConditionTrue, node.ConditionReady) // which the earlier agent had not said
	o.quiet(t, settled)
	o.unchanged(t, 0, all)
	if n := a.writes(t); n != 0 {
		t.Errorf("%d writes where all was right, want 0", n)
	}
}

// relayed is a socket that passes on to another one.
type relayed struct {
	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
	stopped  bool
}

// relay passes on from one Unix socket to another until stop, or the end of the test.
func relay(t *testing.T, from, to string) *relayed {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "unix", from)
	if err != nil {
		t.Fatal(err)
	}
	r := &relayed{listener: l}
	r.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			var d net.Dialer
			out, err := d.DialContext(t.Context(), "unix", to)
			if err != nil {
				_ = in.Close() // as a runtime that is away does
				continue
			}
			r.join(in, out)
		}
	})
	t.Cleanup(func() { r.stop(t) })
	return r
}

func (r *relayed) join(in, out net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, in, out)
	if r.stopped {
		_, _ = in.Close(), out.Close()
		return
	}
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		r.wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1]) // ends with either side
			_, _ = in.Close(), out.Close()
		})
	}
}

// stop ends all connections and removes the socket. It may be called again.
func (r *relayed) stop(t *testing.T) {
	t.Helper()
	if err := r.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Errorf("stop the relay: %v", err)
	}
	r.mu.Lock()
	r.stopped = true
	for _, c := range r.conns {
		_ = c.Close() // one side may have closed it
	}
	r.mu.Unlock()
	r.wg.Wait()
}
