package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/agent/status"
)

// A configuration that cannot be used is told with line, field and remedy, wherever one looks; the last good one stays in
// force, and what is mended is taken without a restart.
func TestConfiguration(t *testing.T) {
	c := newCluster(t)
	m := c.joinMachine(t, "configuration", nil)
	i, j := m.push(t, "a"), m.push(t, "b")
	m.writeConfig(t, "apiVersion: prewarm.dev/v1alpha1\nkind: PrewarmConfiguration\nimages:\n"+
		"  - name: a\n    references: "+i.reference+"\n")
	o := m.observe(t)
	a := m.start(t)
	words := []string{"config.yaml:5:5", "images[0].references", "is not a known field"}
	s := a.until(t, "the configuration is refused", func(s status.Snapshot) bool { return s.Configuration.Error != "" })
	hasWords(t, "status.configuration.error", s.Configuration.Error, words...)
	if err := a.UntilLog(deadline(t), words...); err != nil {
		t.Error(err)
	}
	if s.Configuration.Generation != 0 || s.Configured || s.Ready {
		t.Errorf("the state without a configuration: %+v", s)
	}
	a.answers(t, "/readyz", http.StatusServiceUnavailable, words...)
	a.answers(t, "/healthz", http.StatusOK)

	m.configure(t, i.entry, j.entry)
	o.says(t, 0, said(true, i, j))
	good := a.until(t, "the mended configuration is in force", func(s status.Snapshot) bool { return s.Ready && s.Configuration.Error == "" })
	a.answers(t, "/readyz", http.StatusOK)

	skip := o.count()
	m.configure(t, i.entry, entry{name: "B", reference: j.reference})
	s = a.until(t, "the configuration is refused", func(s status.Snapshot) bool { return s.Configuration.Error != "" })
	hasWords(t, "status.configuration.error", s.Configuration.Error, "config.yaml:5:", "images[1].name", `"B"`)
	if s.Configuration.Generation != good.Configuration.Generation || !s.Ready {
		t.Errorf("generation %d, ready %v, want %d and true", s.Configuration.Generation, s.Ready, good.Configuration.Generation)
	}
	a.answers(t, "/readyz", http.StatusOK)
	_, metrics, err := a.Get(deadline(t), "/metrics")
	if err != nil || !strings.Contains(metrics, `prewarm_config_reloads_total{result="failure"} 2`) {
		t.Errorf("the metrics do not count two refusals (%v):\n%s", err, metrics)
	}
	o.unchanged(t, skip, said(true, i, j))

	// An entry goes, and with it its label.
	m.configure(t, i.entry)
	o.says(t, skip, said(true, i))
	s = a.until(t, "one image is left", func(s status.Snapshot) bool { return len(s.Images) == 1 })
	if s.Configuration.Error != "" || !s.Ready {
		t.Errorf("error %q, ready %v, want none and true", s.Configuration.Error, s.Ready)
	}
}
