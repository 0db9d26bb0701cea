package status

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/cri"
)

// pipes is a listener whose connections are in memory, so that a server can run on the clock of a synctest bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }

// served is a server on the clock of a synctest bubble.
type served struct {
	*pipes
	stop context.CancelFunc
	done chan error
}

func serveStore(t *testing.T, s *Store, with ...func(*HandlerOptions)) *served {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	srv := &served{pipes: newPipes(), stop: stop, done: make(chan error, 1)}
	go func() { srv.done <- Serve(ctx, srv.pipes, newHandler(s, with...), slog.New(slog.DiscardHandler)) }()
	return srv
}

func (s *served) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// client asks for a path and gives the connection, whose answer is for the test to read.
func (s *served) client(t *testing.T, path string) io.ReadCloser {
	t.Helper()
	mine, theirs := net.Pipe()
	s.conns <- theirs
	if _, err := fmt.Fprintf(mine, "GET %s HTTP/1.1\r\nHost: agent\r\n\r\n", path); err != nil {
		t.Fatal(err)
	}
	return mine
}

// event is one server-sent event, or a comment.
type event struct{ name, data string }

// follow reads events, as they come, until the stream ends and the channel closes.
func follow(t *testing.T, conn io.Reader) <-chan event {
	t.Helper()
	events := make(chan event, 1000)
	go func() {
		defer close(events)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("no answer: %v", err)
			return
		}
		defer resp.Body.Close()
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
			t.Errorf("status %d, content type %q", resp.StatusCode, got)
		}
		var e event
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "event":
				e.name = value
			case "data":
				e.data = value
			case ":":
				e = event{name: ":", data: value}
			case "":
				if lines.Text() == "" {
					events <- e
					e = event{}
					continue
				}
				e = event{name: ":", data: value}
			}
		}
	}()
	return events
}

// next gives the names of the events that are there, and decodes the data of the last one.
func next(t *testing.T, events <-chan event, into any) []string {
	t.Helper()
	synctest.Wait()
	var names []string
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return append(names, "end")
			}
			names = append(names, e.name)
			if into != nil {
				if err := json.Unmarshal([]byte(e.data), into); err != nil {
					t.Errorf("event %s: %v in %q", e.name, err, e.data)
				}
			}
		default:
			return names
		}
	}
}

func wantEvents(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: events differ (-want +got):\n%s", what, diff)
	}
}

func TestWatchTellsChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := configured(t, entry(t, "a", "reg.example/a:1"), entry(t, "b", "reg.example/b:1"))
		srv := serveStore(t, s)
		conn := srv.client(t, "/v1/watch")
		defer conn.Close()
		events := follow(t, conn)

		var snapshot Snapshot
		wantEvents(t, "at first", next(t, events, &snapshot), EventSnapshot)
		if diff := cmp.Diff(s.Get(), snapshot); diff != "" {
			t.Errorf("the first snapshot differs (-want +got):\n%s", diff)
		}
		move(t, s, "a", cri.PhaseWaiting)
		var image ImageStatus
		wantEvents(t, "an image changes", next(t, events, &image), EventImage)
		if image.Image != "a" || image.Phase != cri.PhaseWaiting {
			t.Errorf("got %+v", image)
		}
		s.SetRuntime(cri.Info{Name: "containerd"}, errTest)
		wantEvents(t, "the runtime goes away", next(t, events, &snapshot), EventSnapshot)
		if snapshot.RuntimeError != errTest.Error() {
			t.Errorf("got %+v", snapshot)
		}
		s.SetImages(nil)
		wantEvents(t, "no image is needed", next(t, events, &snapshot), EventSnapshot)
		if len(snapshot.Images) != 0 || !snapshot.Ready {
			t.Errorf("got %+v", snapshot)
		}
		since := time.Now()
		srv.end(t)
		if took := time.Since(since); took > 2*time.Second {
			t.Errorf("the server waited %v for the stream", took)
		}
		wantEvents(t, "the server ends", next(t, events, nil), "end")
	})
}

// TestWatchTellsThatTheNodeIsReady: who looks at images only sees it too.
func TestWatchTellsThatTheNodeIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := configured(t, entry(t, "a", "reg.example/a:1"))
		move(t, s, "a", cri.PhaseResolving, cri.PhaseVerifying)
		srv := serveStore(t, s)
		conn := srv.client(t, "/v1/watch")
		defer conn.Close()
		events := follow(t, conn)
		next(t, events, nil)
		move(t, s, "a", cri.PhaseReady)
		var snapshot Snapshot
		wantEvents(t, "ready", next(t, events, &snapshot), EventImage, EventSnapshot)
		if !snapshot.Ready {
			t.Error("the snapshot says not ready")
		}
		srv.end(t)
	})
}

// TestWatchLivesLongerThanAnyLimit lets hours pass with nothing but heartbeats, then changes something.
func TestWatchLivesLongerThanAnyLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := configured(t, entry(t, "a", "reg.example/a:1"))
		srv := serveStore(t, s)
		conn := srv.client(t, "/v1/watch")
		defer conn.Close()
		events := follow(t, conn)
		next(t, events, nil)
		time.Sleep(2*time.Hour + time.Second)
		beats := next(t, events, nil)
		if want := int(2 * time.Hour / heartbeat); len(beats) != want || beats[0] != ":" {
			t.Errorf("%d events in two hours, want %d heartbeats; the first is %q", len(beats), want, beats[:1])
		}
		move(t, s, "a", cri.PhaseWaiting)
		wantEvents(t, "after two hours", next(t, events, nil), EventImage)
		srv.end(t)
	})
}

// TestWatchOfASlowClient: the state moves on while a client does not read, and when it reads on it gets the newest.
func TestWatchOfASlowClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := configured(t, entry(t, "a", "reg.example/a:1"))
		srv := serveStore(t, s)
		conn := srv.client(t, "/v1/watch") // and does not read
		defer conn.Close()
		synctest.Wait()
		for n := range int64(10_000) {
			if err := s.Update("a", func(p *ImageStatus) { p.Phase, p.Bytes.Fetched = cri.PhaseWaiting, n+1 }); err != nil {
				t.Fatal(err)
			}
		}
		events := follow(t, conn)
		var image ImageStatus
		wantEvents(t, "reads on", next(t, events, &image), EventSnapshot, EventImage)
		if image.Bytes.Fetched != 10_000 {
			t.Errorf("the last event is of %d", image.Bytes.Fetched)
		}
		srv.end(t)
	})
}

func TestWatchDropsAClientThatNeverReads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := configured(t)
		srv := serveStore(t, s, func(o *HandlerOptions) { o.MaxWatchers = 1 })
		stuck := srv.client(t, "/v1/watch")
		defer stuck.Close()
		synctest.Wait()
		time.Sleep(patience + time.Second)
		conn := srv.client(t, "/v1/watch")
		defer conn.Close()
		wantEvents(t, "the place is free", next(t, follow(t, conn), nil), EventSnapshot)
		srv.end(t)
	})
}

func TestWatchLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := configured(t)
		srv := serveStore(t, s)
		var conns []io.Closer
		for range DefaultMaxWatchers {
			conn := srv.client(t, "/v1/watch")
			wantEvents(t, "within the limit", next(t, follow(t, conn), nil), EventSnapshot)
			conns = append(conns, conn)
		}
		one := srv.client(t, "/v1/watch")
		resp, err := http.ReadResponse(bufio.NewReader(one), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("one too many: %d, %v", resp.StatusCode, resp.Header)
		}
		one.Close()
		conns[0].Close()
		synctest.Wait()
		last := srv.client(t, "/v1/watch")
		wantEvents(t, "after one has left", next(t, follow(t, last), nil), EventSnapshot)
		conns[0] = last
		srv.end(t)
		for _, c := range conns {
			c.Close()
		}
	})
}
