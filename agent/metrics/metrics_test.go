package metrics

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

var update = flag.Bool("update", false, "write the golden file anew")

func start() time.Time { return time.Date(2026, 8, 23, 12, 0, 0, 0, time.UTC) }

func newMetrics(t *testing.T, s status.Snapshot) *Metrics {
	t.Helper()
	m, err := New(Options{
		Version: "v1.2.3", State: func() status.Snapshot { return s },
		Now: func() time.Time { return start().Add(90 * time.Second) }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// busy is an agent to which everything has happened once.
func busy(t *testing.T) *Metrics {
	t.Helper()
	m := newMetrics(t, status.Snapshot{
		Ready: true, Configuration: status.Configuration{Generation: 4},
		Images: []status.ImageStatus{
			{
				Progress: cri.Progress{Image: "cpu", Phase: cri.PhaseReady, Bytes: cri.Bytes{Total: 300, Present: 100, Fetched: 200}},
				Required: true, Known: true, Room: status.Room{Need: 1000, Free: 5000, Keep: 2000},
			},
			{Progress: cri.Progress{Image: "gpu", Phase: cri.PhaseFailed, Reason: cri.ReasonUnauthorized}, Known: true},
			{Progress: cri.Progress{Image: "slow", Phase: cri.PhasePulling, ByteAt: start()}, Known: true},
		},
	})
	m.PullEnded(cri.Progress{Image: "cpu", StartedAt: start(), Bytes: cri.Bytes{Total: 300, Present: 100, Fetched: 200}}, "")
	m.PullEnded(cri.Progress{Image: "cpu", StartedAt: start().Add(80 * time.Second), Bytes: cri.Bytes{Fetched: 5}}, cri.ReasonCanceled)
	m.PullEnded(cri.Progress{Image: "gpu"}, cri.ReasonUnauthorized)
	m.ImageLost("cpu", cri.ReasonNotPresent)
	m.PinRestored("cpu")
	m.Refreshed("cpu", "")
	m.Refreshed("cpu", cri.ReasonImageNotFound)
	m.APIWrite("node", "success")
	m.APIWrite("node", "success")
	m.APIWrite("node", "conflict")
	m.ConfigurationLoaded(nil)
	m.ConfigurationLoaded(errors.New("on purpose"))
	m.RuntimeReconnected()
	return m
}

// scrape gives what /metrics says of prewarm.
func scrape(t *testing.T, m *Metrics) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	var out bytes.Buffer
	for line := range strings.Lines(w.Body.String()) {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			out.WriteString(line)
		}
	}
	return out.Bytes()
}

// TestGolden holds all that /metrics says; go test ./agent/metrics -update writes it anew.
func TestGolden(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "metrics.golden")
	got := scrape(t, busy(t))
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("/metrics differs (-want +got):\n%s", diff)
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(busy(t).Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestDocs compares the table with what is served.
func TestDocs(t *testing.T) {
	t.Parallel()
	families, err := busy(t).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var served []Doc
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "go_") || strings.HasPrefix(f.GetName(), "process_") {
			continue
		}
		d := Doc{Name: f.GetName(), Type: strings.ToLower(f.GetType().String()), Help: f.GetHelp()}
		for _, l := range f.GetMetric()[0].GetLabel() {
			d.Labels = append(d.Labels, l.GetName())
		}
		served = append(served, d)
	}
	byName := func(a, b Doc) int { return cmp.Compare(a.Name, b.Name) }
	docs := slices.SortedFunc(slices.Values(Docs()), byName)
	for _, d := range docs {
		slices.Sort(d.Labels) // as they are served
	}
	if diff := gocmp.Diff(docs, served); diff != "" {
		t.Errorf("what is served differs from the table (-table +served):\n%s", diff)
	}
}

// TestGaugesFollowTheState: what a node no longer needs is not served any more.
func TestGaugesFollowTheState(t *testing.T) {
	t.Parallel()
	s := status.Snapshot{Images: []status.ImageStatus{{Progress: cri.Progress{Image: "cpu"}}}}
	m, err := New(Options{State: func() status.Snapshot { return s }, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(scrape(t, m)); !strings.Contains(got, `prewarm_image_ready{image="cpu"} 0`) || !strings.Contains(got, "prewarm_node_ready 0") {
		t.Errorf("got %s", got)
	}
	s = status.Snapshot{Ready: true}
	if got := string(scrape(t, m)); strings.Contains(got, `image="cpu"`) || !strings.Contains(got, "prewarm_node_ready 1") {
		t.Errorf("got %s", got)
	}
}

// TestNamesOfAnyKind: a scrape survives what no configuration lets through.
func TestNamesOfAnyKind(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, status.Snapshot{Images: []status.ImageStatus{{Progress: cri.Progress{Image: "a\"\n{}", Phase: "invented"}}}})
	m.PullEnded(cri.Progress{Image: "a\"\n{}", StartedAt: start().Add(time.Hour), Bytes: cri.Bytes{Fetched: -1}}, "")
	if got := string(scrape(t, m)); !strings.Contains(got, `prewarm_image_ready{image="a\"\n{}"} 0`) {
		t.Errorf("got %s", got)
	}
}

func TestScrapesWhileCounting(t *testing.T) {
	t.Parallel()
	m := busy(t)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 50 {
				m.PullEnded(cri.Progress{Image: "cpu"}, "")
				m.APIWrite("node", "success")
			}
		})
		wg.Go(func() { scrape(t, m) })
	}
	wg.Wait()
	if got := string(scrape(t, m)); !strings.Contains(got, `prewarm_api_writes_total{object="node",result="success"} 152`) {
		t.Errorf("got %s", got)
	}
}
