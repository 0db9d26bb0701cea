package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
)

// Get asks it over HTTP.
func (a *Agent) Get(ctx context.Context, path string) (code int, body string, err error) {
	if a.Ended() {
		return 0, "", fmt.Errorf("the agent has ended: %w", a.err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// Status is its state now.
func (a *Agent) Status(ctx context.Context) (s status.Snapshot, err error) {
	code, body, err := a.Get(ctx, "/v1/status")
	if err != nil {
		return s, err
	}
	if code != http.StatusOK {
		return s, fmt.Errorf("/v1/status: %d %s", code, body)
	}
	return s, json.Unmarshal([]byte(body), &s)
}

// UntilLog waits until all words have been logged: a log is read a moment after it was written.
func (a *Agent) UntilLog(ctx context.Context, words ...string) error {
	return Poll(ctx, func(context.Context) error {
		log := a.Log()
		for _, w := range words {
			if !strings.Contains(log, w) {
				return fmt.Errorf("the log does not say %q:\n%s", w, log)
			}
		}
		return nil
	})
}

// Until waits for a state and gives it.
func (a *Agent) Until(ctx context.Context, what string, cond func(status.Snapshot) bool) (s status.Snapshot, err error) {
	err = Poll(ctx, func(ctx context.Context) (err error) {
		if s, err = a.Status(ctx); err == nil && !cond(s) {
			text, _ := json.MarshalIndent(s, "", "  ") // what was JSON is
			err = fmt.Errorf("the state is not yet that %s:\n%s", what, text)
		}
		return err
	})
	return s, err
}
