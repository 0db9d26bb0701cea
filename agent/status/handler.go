package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
)

const (
	// DefaultMaxWatchers is how many clients /v1/watch serves at the same time.
	DefaultMaxWatchers = 64
	// maxBody is the largest body of a request that is read, in bytes; nothing here asks for one.
	maxBody = 1 << 10
)

// HandlerOptions says what the handler shows.
type HandlerOptions struct {
	Store *Store
	// Metrics serves /metrics.
	Metrics http.Handler
	// Healthy tells why the agent should be restarted, for /healthz; nil means that it should not.
	Healthy func() error
	// MaxWatchers is how many clients /v1/watch serves at the same time; 0 means DefaultMaxWatchers.
	MaxWatchers int
	// Now is the clock: time.Now.
	Now    func() time.Time
	Logger *slog.Logger
}

type handler struct {
	HandlerOptions

	// watchers has a token for every client that may still watch.
	watchers chan struct{}
}

// NewHandler shows the state over HTTP: /v1/status and /v1/watch, /healthz and /readyz, /metrics, and a list of these
// at /. All of it is read-only.
func NewHandler(o HandlerOptions) http.Handler {
	if o.MaxWatchers <= 0 {
		o.MaxWatchers = DefaultMaxWatchers
	}
	h := &handler{HandlerOptions: o, watchers: make(chan struct{}, o.MaxWatchers)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.index)
	mux.HandleFunc("GET /healthz", h.healthz)
	mux.HandleFunc("GET /readyz", h.readyz)
	mux.HandleFunc("GET /v1/status", h.status)
	mux.HandleFunc("GET /v1/watch", h.watch)
	mux.Handle("GET /metrics", o.Metrics)
	return http.MaxBytesHandler(readOnly(mux), maxBody)
}

// readOnly refuses what is no question, whatever the path, and says how every answer is to be taken.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the agent only answers questions: use GET", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

const index = `prewarm agent

/v1/status   the state now, as JSON
/v1/watch    the state and its changes, as server-sent events
/metrics     the same and what has been, for Prometheus
/healthz     200 while the agent lives
/readyz      200 once it is connected to the container runtime and configured
`

func (h *handler) index(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, index)
}

func (h *handler) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := h.Healthy(); err != nil {
		answer(w, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	}
	answer(w, http.StatusOK, "ok\n")
}

// readyz is about the agent, not about its images: a node that is being warmed has a ready agent.
func (h *handler) readyz(w http.ResponseWriter, _ *http.Request) {
	if why := notReady(h.Store.Get()); len(why) > 0 {
		answer(w, http.StatusServiceUnavailable, strings.Join(why, "\n")+"\n")
		return
	}
	answer(w, http.StatusOK, "ok\n")
}

// notReady tells what an agent lacks to do its work.
func notReady(s Snapshot) []string {
	var why []string
	switch {
	case s.RuntimeError != "":
		why = append(why, "the container runtime does not answer: "+s.RuntimeError)
	case s.Runtime.Name == "":
		why = append(why, "not connected to the container runtime yet")
	}
	switch {
	case s.Configuration.Generation == 0 && s.Configuration.Error != "":
		why = append(why, "there is no good configuration: "+s.Configuration.Error)
	case s.Configuration.Generation == 0:
		why = append(why, "the configuration has not been read yet")
	case !s.Configured && s.NodeError != "":
		why = append(why, "the images of this node cannot be chosen: "+s.NodeError)
	case !s.Configured:
		why = append(why, "the images of this node have not been chosen yet")
	}
	return why
}

func (h *handler) status(w http.ResponseWriter, r *http.Request) {
	body, err := json.MarshalIndent(h.Store.Get(), "", "  ")
	if err != nil {
		h.Logger.ErrorContext(r.Context(), "state cannot be written as JSON", "error", err)
		http.Error(w, "the state cannot be written as JSON; see the agent's log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "%s\n", body)
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // the client may have gone away
}

// supported leaves out that a ResponseWriter cannot do something.
func supported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
