package node

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

func TestConfigz(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]Thresholds{
		`{"kubeletconfig": {"imageGCHighThresholdPercent": 80, "evictionHard": {"nodefs.available": "12%", "imagefs.available": "20.5%"}}}`: {80, 12, 20},
		`{"kubeletconfig": {"evictionHard": {"nodefs.available": "10Gi", "imagefs.available": "x%"}}}`:                                      {},
		`{"kubeletconfig": {"imageGCHighThresholdPercent": 185, "evictionHard": {"nodefs.available": "-1%"}}}`:                              {},
		`{}`: {},
	} {
		if got, err := parseConfigz([]byte(body)); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", body, got, err, want)
		}
	}
	for _, body := range []string{"", "Forbidden", `{"kubeletconfig": []}`} {
		if got, err := parseConfigz([]byte(body)); err == nil {
			t.Errorf("%q is taken: %+v", body, got)
		}
	}
}

// The kubelet is asked once, if that is wanted; what it says goes along with what the Node says.
func TestTheKubeletIsAsked(t *testing.T) {
	t.Parallel()
	r := &Reporter{facts: make(chan Facts, 1)}
	o := &object{facts: Facts{Labels: map[string]string{"a": "b"}}}
	r.keep(o)
	if got := <-r.facts; got.Kubelet != (Thresholds{}) {
		t.Errorf("before: %+v", got)
	}
	r.see(t.Context(), sighting{kubelet: &Thresholds{ImageGCHigh: 80}})
	if got := <-r.facts; got.Kubelet.ImageGCHigh != 80 || got.Labels["a"] != "b" {
		t.Errorf("after: %+v", got)
	}
	r.keep(o)
	select {
	case got := <-r.facts:
		t.Errorf("the same was passed on again: %+v", got)
	default:
	}
}

// The question goes through the API server; where that says no, the defaults hold and nothing else changes.
func TestTheQuestionToTheKubelet(t *testing.T) {
	t.Parallel()
	allowed := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/api/v1/nodes/n1/proxy/configz":
			http.NotFound(w, r)
		case !allowed:
			http.Error(w, "no", http.StatusForbidden)
		default:
			_, _ = w.Write([]byte(`{"kubeletconfig": {"imageGCHighThresholdPercent": 70}}`)) // the test reads it
		}
	}))
	t.Cleanup(server.Close)
	r, err := NewReporter(Options{
		Config: &rest.Config{Host: server.URL}, Node: "n1", Logger: slog.New(slog.DiscardHandler), Problem: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	var sent []sighting
	r.askKubelet(t.Context(), func(s sighting) { sent = append(sent, s) })
	if len(sent) != 1 || sent[0].kubelet == nil || sent[0].kubelet.ImageGCHigh != 70 {
		t.Errorf("sent %+v", sent)
	}
	allowed, sent = false, nil
	r.askKubelet(t.Context(), func(s sighting) { sent = append(sent, s) })
	if len(sent) != 0 {
		t.Errorf("sent %+v though it was refused", sent)
	}
}
