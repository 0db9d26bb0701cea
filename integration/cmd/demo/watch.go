package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// follow takes in what the agent says until ctx ends.
func (a *agentProcess) follow(ctx context.Context, url string, show func(status.Snapshot)) {
	var resp *http.Response
	wctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	err := harness.Poll(wctx, func(context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err == nil {
			resp, err = http.DefaultClient.Do(req) //nolint:bodyclose,forbidigo // closed below; no time limit is wanted
		}
		return err
	})
	cancel()
	if err != nil {
		a.update(func() { a.broken = err })
		return
	}
	defer resp.Body.Close()
	err = events(resp.Body, func(name string, data []byte) error {
		var err error
		a.update(func() {
			err = apply(&a.now, name, data)
			if err == nil {
				show(a.now)
			}
		})
		return err
	})
	a.update(func() { a.broken = errors.Join(err, errors.New("the agent has ended")) })
}

// apply takes in an event of /v1/watch.
func apply(now *status.Snapshot, name string, data []byte) error {
	if name == status.EventSnapshot {
		*now = status.Snapshot{}
		return json.Unmarshal(data, now)
	}
	var image status.ImageStatus
	if err := json.Unmarshal(data, &image); err != nil {
		return err
	}
	images := append([]status.ImageStatus(nil), now.Images...)
	for i := range images {
		if images[i].Image == image.Image {
			images[i] = image
		}
	}
	now.Images = images
	return nil
}

// events reads server-sent events.
func events(r io.Reader, event func(name string, data []byte) error) error {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	var name string
	for scanner.Scan() {
		line := scanner.Text()
		if n, ok := strings.CutPrefix(line, "event: "); ok {
			name = n
		} else if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := event(name, []byte(data)); err != nil {
				return err
			}
		}
	}
	return scanner.Err()
}

func (a *agentProcess) update(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
	close(a.changed)
	a.changed = make(chan struct{})
}

// wait waits until the node is as it is wanted, or the agent has ended.
func (a *agentProcess) wait(ctx context.Context, wanted status.Readiness) (status.Snapshot, error) {
	for {
		a.mu.Lock()
		now, changed, broken := a.now, a.changed, a.broken
		a.mu.Unlock()
		if now.Readiness() == wanted {
			return now, nil
		}
		if broken != nil {
			return now, broken
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now, context.Cause(ctx)
		}
	}
}

// drawn gives the agent's bars the time to go away.
func drawn(ctx context.Context) error {
	timer := time.NewTimer(600 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
