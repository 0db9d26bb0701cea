package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// soon is the time from an API server's being back to a Node that says what is so: the longest pause, and a margin.
const soon = 12 * time.Second

func TestAPIServerAway(t *testing.T) {
	c := newCluster(t)
	t.Run("while an image is lost", func(t *testing.T) { awayAndBack(t, c) })
	t.Run("when the agent starts", func(t *testing.T) { awayAtStart(t, c) })
}

// up starts the API server again and notes when it was ready.
func (c *cluster) up(t *testing.T) time.Time {
	t.Helper()
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	return time.Now()
}

// awayAndBack holds that what happened while there was no API server is on the Node soon after, and that the agent goes
// on meanwhile: it is live and ready, and says what is wrong.
func awayAndBack(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "away", nil)
	i, j := m.push(t, "a"), m.push(t, "b")
	m.configure(t, i.entry, j.entry)
	a := m.start(t)
	m.observe(t).says(t, 0, said(true, i, j))

	c.Kill()
	remove := m.reg.Inject(harness.Match{}, harness.Status(http.StatusServiceUnavailable))
	m.crictl(t, "rmi", i.reference)
	a.until(t, "the image cannot be pulled again", func(s status.Snapshot) bool {
		is, _ := s.Image(i.name)
		return is.Phase == cri.PhaseFailed && is.Reason == cri.ReasonRegistryUnavailable && !s.Ready
	})
	a.problem(t, "APIServerUnavailable", "Node "+m.name)
	a.answers(t, "/readyz", http.StatusOK)
	a.answers(t, "/healthz", http.StatusOK)
	back := c.up(t)

	o := m.observe(t)
	took := o.says(t, 0, said(false, j)).at.Sub(back)
	t.Logf("labels right %v after the API server was ready", took)
	if took > soon {
		t.Errorf("the labels were right %v after the API server was back, want at most %v", took, soon)
	}
	a.until(t, "all is well with the Node", func(s status.Snapshot) bool { return s.NodeError == "" })
	remove()
	m.crictl(t, "pull", i.reference)
	o.says(t, 0, said(true, i, j))
}

// awayAtStart holds that an agent which starts before the API server waits for it, as on a node that boots.
func awayAtStart(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "start", nil)
	i := m.push(t, "a")
	m.configure(t, i.entry)
	c.Kill()
	a := m.start(t)
	a.problem(t, "APIServerUnavailable", "Node "+m.name)
	a.until(t, "there is a runtime and a configuration", func(s status.Snapshot) bool {
		return s.Runtime.Name != "" && s.Configuration.Generation > 0
	})
	a.answers(t, "/readyz", http.StatusServiceUnavailable, "the images of this node cannot be chosen", "APIServerUnavailable")
	a.answers(t, "/healthz", http.StatusOK)
	back := c.up(t)
	took := m.observe(t).says(t, 0, said(true, i)).at.Sub(back)
	t.Logf("labelled %v after the API server was ready", took)
	if took > soon {
		t.Errorf("the Node was labelled %v after the API server was there, want at most %v", took, soon)
	}
	s := a.until(t, "all is well with the Node", func(s status.Snapshot) bool { return s.NodeError == "" })
	if diff := cmp.Diff(m.name, s.Node); diff != "" {
		t.Errorf("status.node (-want +got):\n%s", diff)
	}
	a.answers(t, "/readyz", http.StatusOK)
}
