package status

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestServeOnASocket is the way from a real socket to the state and back, and its end.
func TestServeOnASocket(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listener, newHandler(newStore(t)), slog.New(slog.DiscardHandler)) }()
	client := &http.Client{Timeout: 10 * time.Second}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/v1/watch": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
	stop() // one stream of /v1/watch is open
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the server did not end")
	}
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("the listener is still open")
	}
}

func TestServeTellsThatTheListenerFailed(t *testing.T) {
	t.Parallel()
	p := newPipes()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	err := Serve(t.Context(), p, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "HTTP server at pipes") {
		t.Errorf("got %v", err)
	}
}

// TestServeEndsDespiteAClientThatDoesNotRead: how the agent exits does not depend on who watched it.
func TestServeEndsDespiteAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := serveStore(t, configured(t))
		conn := srv.client(t, "/v1/watch")
		defer conn.Close()
		synctest.Wait()
		since := time.Now()
		srv.end(t)
		if took := time.Since(since); took > 6*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestLimits sends what a client should not, and waits as one should not.
func TestLimits(t *testing.T) {
	t.Parallel()
	header := "GET /v1/status HTTP/1.1\r\nHost: agent\r\n"
	cases := map[string]struct {
		send   string
		status int // 0: the connection is closed without an answer
		within time.Duration
	}{
		"slow header":    {send: header, within: 6 * time.Second},
		"nothing at all": {send: "", within: 6 * time.Second},
		"large header":   {send: header + "X: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", status: http.StatusRequestHeaderFieldsTooLarge, within: time.Second},
		"idle":           {send: header + "\r\n", status: http.StatusOK, within: 61 * time.Second},
		"slow body":      {send: header + "Content-Length: 100\r\n\r\n", status: http.StatusOK, within: 12 * time.Second},
		"large body":     {send: header + fmt.Sprintf("Content-Length: %d\r\n\r\n", 1<<40), status: http.StatusOK, within: 12 * time.Second},
		"no HTTP":        {send: "\x16\x03\x01 hello\r\n\r\n", status: http.StatusBadRequest, within: time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := serveStore(t, configured(t))
				theirs, pipe := net.Pipe()
				var mine io.ReadWriteCloser = pipe
				defer mine.Close()
				srv.conns <- theirs
				since := time.Now()
				go func() { _, _ = io.WriteString(mine, c.send) }() // the server need not read all of it
				r := bufio.NewReader(mine)
				if c.status != 0 {
					resp, err := http.ReadResponse(r, nil)
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					if resp.StatusCode != c.status {
						t.Errorf("status %d, want %d", resp.StatusCode, c.status)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
				}
				if _, err := io.Copy(io.Discard, r); err != nil && !errors.Is(err, io.ErrClosedPipe) {
					t.Error(err)
				}
				if took := time.Since(since); took > c.within {
					t.Errorf("the connection was open for %v, want %v at most", took, c.within)
				}
				srv.end(t)
			})
		})
	}
}
