package status

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// heartbeat is the time between two comments on a stream that has nothing to tell, so that neither side's network
	// takes it for dead.
	heartbeat = 15 * time.Second
	// patience is how long a client may leave what it is sent unread.
	patience = 30 * time.Second
	// retryAfter is when a client that was turned away may ask again, in seconds.
	retryAfter = "10"
)

// The names of the server-sent events of /v1/watch.
const (
	EventSnapshot = "snapshot" // a Snapshot: the first event, and when anything beside the images has changed
	EventImage    = "image"    // an ImageStatus: that image has changed
)

// watch streams the state (WHATWG HTML, "Server-sent events"). A client that is slow is told less often, never late: each
// event has the newest state.
func (h *handler) watch(w http.ResponseWriter, r *http.Request) {
	select {
	case h.watchers <- struct{}{}:
		defer func() { <-h.watchers }()
	default:
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, fmt.Sprintf("%d clients are watching already; ask /v1/status", h.MaxWatchers), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	s := &stream{w: w, rc: http.NewResponseController(w), now: h.Now}
	if err := s.run(r, h.Store); err != nil && r.Context().Err() == nil {
		h.Logger.InfoContext(r.Context(), "a watching client is gone", "client", r.RemoteAddr, "error", err)
	}
}

// stream is one client of /v1/watch.
type stream struct {
	w    io.Writer
	rc   *http.ResponseController
	now  func() time.Time
	told Snapshot
}

// run sends events until the client goes away or the server ends.
func (s *stream) run(r *http.Request, store *Store) error {
	ctx := r.Context()
	first, changed := store.get()
	if err := s.send(s.event(EventSnapshot, first)); err != nil {
		return err
	}
	s.told = first
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			err = s.send([]byte(": heartbeat\n\n"), nil)
		case <-changed:
			var next Snapshot
			next, changed = store.get()
			err = s.tell(next)
			beat.Reset(heartbeat)
		}
		if err != nil {
			return err
		}
	}
}

// tell sends what is different from what the client has been told.
func (s *stream) tell(next Snapshot) error {
	images, rest := next.changedSince(s.told)
	var out []byte
	for _, i := range images {
		e, err := s.event(EventImage, i)
		if err != nil {
			return err
		}
		out = append(out, e...)
	}
	if rest {
		e, err := s.event(EventSnapshot, next)
		if err != nil {
			return err
		}
		out = append(out, e...)
	}
	s.told = next
	return s.send(out, nil)
}

// event is a server-sent event; JSON has no line breaks of its own.
func (s *stream) event(name string, data any) ([]byte, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", name, err)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text), nil
}

// send writes and flushes; it waits for the client for as long as patience lasts.
func (s *stream) send(out []byte, err error) error {
	if err != nil || len(out) == 0 {
		return err
	}
	if err := supported(s.rc.SetWriteDeadline(s.now().Add(patience))); err != nil {
		return err
	}
	if _, err := s.w.Write(out); err != nil {
		return err
	}
	return s.rc.Flush()
}
