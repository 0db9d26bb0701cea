package status

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

func get(t *testing.T, h http.Handler, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w
}

func TestPaths(t *testing.T) {
	t.Parallel()
	h := newHandler(configured(t, entry(t, "a", "reg.example/a:1")))
	for path, want := range map[string]struct {
		contentType, contains string
	}{
		"/":          {"text/plain; charset=utf-8", "/v1/watch"},
		"/healthz":   {"text/plain; charset=utf-8", "ok\n"},
		"/readyz":    {"text/plain; charset=utf-8", "ok\n"},
		"/v1/status": {"application/json", `"image": "a"`},
		"/metrics":   {"", "metrics\n"},
	} {
		w := get(t, h, http.MethodGet, path)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want.contains) {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
		if got := w.Header().Get("Content-Type"); want.contentType != "" && got != want.contentType {
			t.Errorf("%s: content type %q", path, got)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", path, w.Header())
		}
		if path != "/" && !strings.Contains(index, path) {
			t.Errorf("%s is not in the index", path)
		}
	}
	for _, path := range []string{"/v1", "/v1/status/", "/v1/images", "/debug/pprof/", "/healthz/x"} {
		if w := get(t, h, http.MethodGet, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, w.Code)
		}
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	h := newHandler(configured(t))
	for _, path := range []string{"/", "/healthz", "/readyz", "/v1/status", "/v1/watch", "/metrics", "/nothing"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "BREW"} {
			w := get(t, h, method, path)
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q", method, path, w.Code, w.Header().Get("Allow"))
			}
		}
		if w := get(t, h, http.MethodHead, path); path != "/nothing" && w.Code != http.StatusOK {
			t.Errorf("HEAD %s: %d", path, w.Code)
		}
	}
}

func TestHealthz(t *testing.T) {
	t.Parallel()
	h := newHandler(newStore(t), func(o *HandlerOptions) {
		o.Healthy = func() error { return errors.New("the loop has not moved for 2m0s") }
	})
	if w := get(t, h, http.MethodGet, "/healthz"); w.Code != http.StatusServiceUnavailable || w.Body.String() != "the loop has not moved for 2m0s\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func TestReadyz(t *testing.T) {
	t.Parallel()
	connected := func(s *Store) { s.SetRuntime(cri.Info{Name: "containerd"}, nil) }
	loaded := func(s *Store) { s.SetConfiguration(config.Update{Configuration: config.Default(), Generation: 1}) }
	refused := func(s *Store) { s.SetConfiguration(config.Update{Err: errTest, Generation: 2}) }
	chosen := func(s *Store) { s.SetImages(nil) }
	cases := map[string]struct {
		steps []func(*Store)
		want  []string // the reasons; none means ready
	}{
		"at first": {want: []string{"not connected to the container runtime yet", "the configuration has not been read yet"}},
		"no runtime": {
			steps: []func(*Store){loaded, chosen, func(s *Store) { s.SetRuntime(cri.Info{}, errTest) }},
			want:  []string{"the container runtime does not answer: on purpose"},
		},
		"runtime went away": {
			steps: []func(*Store){connected, loaded, chosen, func(s *Store) { s.SetRuntime(cri.Info{Name: "containerd"}, errTest) }},
			want:  []string{"the container runtime does not answer: on purpose"},
		},
		"bad configuration": {steps: []func(*Store){connected, refused}, want: []string{"there is no good configuration: on purpose"}},
		"no Node": {
			steps: []func(*Store){connected, loaded, func(s *Store) { s.SetNodeError(errTest) }},
			want:  []string{"the images of this node cannot be chosen: on purpose"},
		},
		"not chosen": {steps: []func(*Store){connected, loaded}, want: []string{"the images of this node have not been chosen yet"}},
		"ready":      {steps: []func(*Store){connected, loaded, chosen}},
		"the last good configuration is in force": {steps: []func(*Store){connected, loaded, chosen, refused}},
		"the Node is gone later":                  {steps: []func(*Store){connected, loaded, chosen, func(s *Store) { s.SetNodeError(errTest) }}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			for _, step := range c.steps {
				step(s)
			}
			code, body := http.StatusServiceUnavailable, strings.Join(c.want, "\n")+"\n"
			if len(c.want) == 0 {
				code, body = http.StatusOK, "ok\n"
			}
			if w := get(t, newHandler(s), http.MethodGet, "/readyz"); w.Code != code || w.Body.String() != body {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body, code, body)
			}
		})
	}
}

// TestReadyzIsNotAboutImages: a rollout must not wait for images.
func TestReadyzIsNotAboutImages(t *testing.T) {
	t.Parallel()
	s := configured(t, entry(t, "a", "reg.example/a:1"))
	move(t, s, "a", cri.PhaseResolving, cri.PhaseFailed)
	if w := get(t, newHandler(s), http.MethodGet, "/readyz"); w.Code != http.StatusOK {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// TestStatusIsTheSnapshot reads the answer back.
func TestStatusIsTheSnapshot(t *testing.T) {
	t.Parallel()
	s := configured(t, entry(t, "a", "reg.example/a:1"))
	warm(t, s, "a")
	var got Snapshot
	if err := json.Unmarshal(get(t, newHandler(s), http.MethodGet, "/v1/status").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Get(), got); diff != "" || !got.Ready {
		t.Errorf("ready %v; differs (-want +got):\n%s", got.Ready, diff)
	}
}
