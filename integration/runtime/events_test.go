package runtime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// listener collects what Events yields.
type listener struct {
	events chan cri.Event
	// ended has the error with which the stream ended; nil for none.
	ended chan error
}

// listen listens until the test ends. When it returns the stream stands.
func (n *node) listen(t *testing.T) listener {
	t.Helper()
	l := listener{events: make(chan cri.Event, 100), ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(deadline(t))
	done := make(chan struct{})
	go func() {
		defer close(done)
		var last error
		for e, err := range n.cri.Events(ctx) {
			if last = err; err == nil {
				l.events <- e
			}
		}
		l.ended <- last
	}()
	t.Cleanup(func() { cancel(); <-done })
	if got := l.next(t, patience); got != (cri.Event{}) {
		t.Fatalf("the stream begins with %+v, want the empty event that says that it stands", got)
	}
	return l
}

func (l listener) next(t *testing.T, within time.Duration) cri.Event {
	t.Helper()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case e := <-l.events:
		return e
	case err := <-l.ended:
		t.Fatalf("the stream ended: %v", err)
	case <-timer.C:
		t.Fatalf("no event within %v", within)
	}
	return cri.Event{}
}

// find wants an event within a second of the deed.
func (l listener) find(t *testing.T, want cri.Event) {
	t.Helper()
	end := time.Now().Add(time.Second)
	for l.next(t, time.Until(end)) != want {
	}
}

// Whoever removes an image or a snapshot, and by whatever tool: we hear of it within a second, by its name.
func TestEvents(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, img := n.push(t, "lab/events:1", layers(random(101, 50*kib), random(102, 50*kib)))
	for name, tc := range map[string]struct {
		remove func(t *testing.T)
		want   cri.Event
		state  error
	}{
		"crictl rmi by name": {
			func(t *testing.T) { t.Helper(); n.crictl(t, "rmi", img.Reference.String()) },
			cri.Event{Reference: img.Reference.String()},
			cri.ErrNotPresent,
		},
		"crictl rmi by ID": {
			func(t *testing.T) { t.Helper(); n.crictl(t, "rmi", img.Config.String()) },
			cri.Event{Reference: img.Reference.String()},
			cri.ErrNotPresent,
		},
		"ctr images rm": {
			func(t *testing.T) { t.Helper(); n.ctr(t, "images", "rm", img.Reference.String()) },
			cri.Event{Reference: img.Reference.String()},
			nil,
		},
		"ctr snapshots rm": {
			func(t *testing.T) { t.Helper(); n.removeTop(t, img) },
			cri.Event{ChainID: img.Layers[1].ChainID},
			cri.ErrNotUnpacked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n.pull(t, img)
			n.ready(t, img)
			l := n.listen(t)
			start := time.Now()
			tc.remove(t)
			l.find(t, tc.want)
			t.Logf("seen %v after the command began", time.Since(start))
			if tc.state != nil {
				n.notReady(t, img, tc.state)
			}
		})
	}
}

// A snapshotter that CRI does not use is none of our business, nor is another namespace.
func TestEventsOfOthers(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{Snapshotter: "native"})
	_, img := n.push(t, "lab/others:1", layers(random(103, 50*kib)))
	_, foreign := n.push(t, "lab/elsewhere:1", layers(random(105, 50*kib)))
	l := n.listen(t)
	n.ctr(t, "snapshots", "--snapshotter", "overlayfs", "prepare", "foreign")
	n.ctr(t, "snapshots", "--snapshotter", "overlayfs", "rm", "foreign")
	n.ctr(t, "--namespace", "elsewhere", "images", "pull", "--plain-http", "--snapshotter", "native", foreign.Reference.String())
	n.ctr(t, "--namespace", "elsewhere", "images", "rm", "--sync", foreign.Reference.String())
	n.notReady(t, foreign, cri.ErrNotPresent)
	n.pull(t, img)
	n.ctr(t, "images", "rm", img.Reference.String())
	if got, want := l.next(t, time.Second), (cri.Event{Reference: img.Reference.String()}); got != want {
		t.Errorf("the first event is %+v, want %+v", got, want)
	}
}

// When containerd goes away the stream ends with an error that says so, and a new one stands as soon as it is back; who
// verifies then misses nothing.
func TestEventsWhenContainerdRestarts(t *testing.T) {
	for name, stop := range map[string]func(*harness.Containerd) error{
		"stopped": (*harness.Containerd).Stop,
		"killed":  func(c *harness.Containerd) error { c.Kill(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, harness.ContainerdOptions{})
			_, img := n.push(t, "lab/restart:1", layers(random(104, 50*kib)))
			n.pull(t, img)
			l := n.listen(t)
			if err := stop(n.Containerd); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-l.ended:
				if cri.ReasonOf(err) != cri.ReasonRuntimeUnavailable {
					t.Errorf("the stream ended with %v, want reason %s", err, cri.ReasonRuntimeUnavailable)
				}
			case <-deadline(t).Done():
				t.Fatal("the stream does not end")
			}
			if err := n.Restart(deadline(t)); err != nil {
				t.Fatal(err)
			}
			n.back(t)
			again := n.listen(t)
			n.ready(t, img)
			n.crictl(t, "rmi", img.Reference.String())
			again.find(t, cri.Event{Reference: img.Reference.String()})
		})
	}
}

// The stream ends with the context, without a noise.
func TestEventsEndWithTheContext(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	for _, err := range n.cri.Events(ctx) {
		cancel()
		if err != nil && cri.ReasonOf(err) != cri.ReasonCanceled && !errors.Is(err, context.Canceled) {
			t.Errorf("the stream ended with %v", err)
		}
	}
}
