package e2e_test

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/agent/node"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

func TestChoice(t *testing.T) {
	c := newCluster(t)
	t.Run("by the instance type", func(t *testing.T) {
		m := c.joinMachine(t, "gpu", labels{"node.kubernetes.io/instance-type": "ml.g5.xlarge"})
		_, gpu := m.configureByAccelerator(t)
		o := m.observe(t)
		a := m.start(t)
		o.says(t, 0, said(true, gpu))
		a.has(t, gpu.name)
		m.untouched(t, "cpu")
	})
	t.Run("by a label that comes later", func(t *testing.T) {
		m := c.joinMachine(t, "later", labels{"node.kubernetes.io/instance-type": "ml.m5.xlarge"})
		cpu, gpu := m.configureByAccelerator(t)
		o := m.observe(t)
		a := m.start(t)
		o.says(t, 0, said(true, cpu))
		a.has(t, cpu.name)
		m.untouched(t, "gpu")
		c.label(t, m.name, labels{"nvidia.com/gpu.present": "true"})
		o.says(t, o.count()-1, said(true, gpu))
		a.has(t, gpu.name)
	})
	t.Run("by a selector of labels", func(t *testing.T) {
		m := c.joinMachine(t, "selector", labels{"example.com/pool": "spaces"})
		i, j := m.push(t, "here"), m.push(t, "elsewhere")
		i.more, j.more = "nodes: {matchLabels: {example.com/pool: spaces}}", "nodes: {matchLabels: {example.com/pool: training}}"
		m.configure(t, i.entry, j.entry)
		o := m.observe(t)
		a := m.start(t)
		o.says(t, 0, said(true, i))
		a.has(t, i.name)
		c.label(t, m.name, labels{"example.com/pool": "training"})
		o.says(t, o.count()-1, said(true, j))
		a.has(t, j.name)
	})
}

// configureByAccelerator configures one image for each kind of node.
func (m *machine) configureByAccelerator(t *testing.T) (cpu, gpu image) {
	t.Helper()
	cpu, gpu = m.push(t, "cpu"), m.push(t, "gpu")
	cpu.more, gpu.more = "nodes: {accelerator: none}", "nodes: {accelerator: nvidia}"
	m.configure(t, cpu.entry, gpu.entry)
	return cpu, gpu
}

// has wants that the agent has just these images.
func (a *agent) has(t *testing.T, names ...string) {
	t.Helper()
	s := a.until(t, "the node is ready", func(s status.Snapshot) bool { return s.Ready })
	var got []string
	for _, i := range s.Images {
		got = append(got, i.Image)
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Errorf("images of this node (-want +got):\n%s", diff)
	}
}

// untouched wants that nobody has asked the registry for an image.
func (m *machine) untouched(t *testing.T, name string) {
	t.Helper()
	list := m.reg.Requests().Filter(harness.Match{Path: regexp.MustCompile(`/lab/` + name + `/`)})
	if len(list) > 0 {
		t.Errorf("the registry was asked for an image that this node does not need:\n%s", list)
	}
}

func TestRequired(t *testing.T) {
	c := newCluster(t)
	notFound := func(m *machine, name, more string) entry {
		return entry{name: name, reference: m.reg.Ref("lab/nosuch:1"), more: more}
	}
	failed := func(name string) func(status.Snapshot) bool {
		return func(s status.Snapshot) bool {
			is, _ := s.Image(name)
			return is.Phase == cri.PhaseFailed && is.Reason == cri.ReasonImageNotFound
		}
	}
	t.Run("images decide alone", func(t *testing.T) {
		m := c.joinMachine(t, "optional", nil)
		i, j, extra := m.push(t, "a"), m.push(t, "b"), m.push(t, "extra")
		extra.more = "required: false"
		m.configure(t, notFound(m, "nosuch", "required: false"), extra.entry, i.entry, j.entry)
		release := make(chan struct{})
		m.reg.Inject(harness.GetBlob(j.Layers[0].Digest), harness.Hold(release))
		o := m.observe(t)
		a := m.start(t)
		o.says(t, 0, said(false, extra, i)) // one of two that are required
		a.until(t, "the image is not found", failed("nosuch"))
		close(release)
		o.says(t, 0, said(true, extra, i, j))
		a.until(t, "the node is ready", func(s status.Snapshot) bool { return s.Ready })

		// An image that is not required is lost, and stays so: the node is ready all along.
		skip := o.count()
		m.reg.Inject(harness.Match{}, harness.Status(http.StatusServiceUnavailable))
		m.crictl(t, "rmi", extra.reference)
		o.says(t, skip, said(true, i, j))
	})
	t.Run("images keep the label away", func(t *testing.T) {
		m := c.joinMachine(t, "bad", nil)
		i := m.push(t, "a")
		m.configure(t, notFound(m, "nosuch", ""), i.entry)
		o := m.observe(t)
		a := m.start(t)
		o.says(t, 0, said(false, i))
		s := a.until(t, "the image is not found", failed("nosuch"))
		if s.Ready {
			t.Error("the node is ready without an image that is required")
		}
		all, _ := o.all()
		for _, s := range all {
			if s.node.Labels[node.LabelReady] != "" {
				t.Errorf("the node had the label in between:\n%s", history(all))
			}
		}
		a.answers(t, "/readyz", http.StatusOK)
		// The image comes, by somebody else: no need to wait for the next question to the registry.
		late := m.push(t, "nosuch")
		m.crictl(t, "pull", late.reference)
		o.says(t, 0, said(true, i, late))
	})
}
