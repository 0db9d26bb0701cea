package e2e_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// That an agent exits with 0 soon after SIGTERM is held by stop, which ends every agent of these tests.
func TestStop(t *testing.T) {
	c := newCluster(t)
	t.Run("and the labels stay, and do not blink with the next agent", func(t *testing.T) { labelsStay(t, c) })
	t.Run("in the middle of a pull", func(t *testing.T) { stopWithinPull(t, c) })
	t.Run("and what is lost meanwhile is told before it is pulled", func(t *testing.T) { lostMeanwhile(t, c) })
}

func labelsStay(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "stay", nil)
	i, j := m.push(t, "a"), m.push(t, "b")
	m.configure(t, i.entry, j.entry)
	o := m.observe(t)
	first := m.start(t)
	all := said(true, i, j)
	o.says(t, 0, all)
	skip := o.count()
	first.stop(t)
	m.reg.Forget()
	second := m.start(t)
	second.until(t, "all is ready", func(s status.Snapshot) bool { return s.Ready })
	o.quiet(t, time.Second)
	o.unchanged(t, skip, all)
	if n := second.writes(t); n != 0 {
		t.Errorf("the second agent wrote %d times, want 0", n)
	}
	if list := m.reg.Requests(); len(list) > 0 {
		t.Errorf("the second agent asked the registry for images that are there:\n%s", list)
	}
}

// stopWithinPull holds that an agent ends soon also in mid-pull, that the label of what is ready stays, and that the next
// agent pulls the rest.
func stopWithinPull(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "within", nil)
	i, j := m.push(t, "a"), m.push(t, "b")
	m.configure(t, i.entry, j.entry)
	release := make(chan struct{})
	m.reg.Inject(harness.GetBlob(j.Layers[1].Digest), harness.Stall(100<<10, release))
	o := m.observe(t)
	first := m.start(t)
	o.says(t, 0, said(false, i))
	pulling := func(s status.Snapshot) bool {
		is, _ := s.Image(j.name)
		return is.Phase == cri.PhasePulling && is.Bytes.Fetched > 0
	}
	first.until(t, "the second image is being pulled", pulling)
	skip := o.count()
	first.stop(t)
	second := m.start(t)
	second.until(t, "the second image is being pulled again", func(s status.Snapshot) bool {
		is, _ := s.Image(j.name)
		return is.Phase == cri.PhasePulling
	})
	o.unchanged(t, skip, said(false, i))
	close(release)
	o.says(t, skip, said(true, i, j))
}

// lostMeanwhile holds that a new agent takes back what is not true any more before it does anything about it.
func lostMeanwhile(t *testing.T, c *cluster) {
	m := c.joinMachine(t, "meanwhile", nil)
	i, j := m.push(t, "a"), m.push(t, "b")
	m.configure(t, i.entry, j.entry)
	o := m.observe(t)
	first := m.start(t)
	all := said(true, i, j)
	o.says(t, 0, all)
	first.stop(t)
	skip := o.count()
	m.crictl(t, "rmi", i.reference)
	release := make(chan struct{})
	m.reg.Inject(harness.Match{}, harness.Hold(release))
	began := time.Now()
	m.start(t)
	s := o.lacks(t, skip, node.LabelReady)
	if diff := cmp.Diff(said(false, j), s.ours()); diff != "" {
		t.Errorf("labels of the node that has lost an image (-want +got):\n%s", diff)
	}
	if took := s.at.Sub(began); took > corrected {
		t.Errorf("the label was gone %v after the start, want at most %v", took, corrected)
	}
	close(release)
	o.says(t, skip, all)
}
