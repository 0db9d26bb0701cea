package node

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
)

// bench is a Reporter that runs against a stand-in for the API server, on the clock of a synctest bubble.
type bench struct {
	*fakeAPI
	*Reporter
	states chan State
	stop   context.CancelFunc
	done   chan error

	mu       sync.Mutex
	writes   []string // but those of the status, which are in statuses
	statuses []string
	problems []Reason
}

func (b *bench) APIWrite(object, result string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if object == objectNodeStatus {
		b.statuses = append(b.statuses, result)
		return
	}
	b.writes = append(b.writes, object+" "+result)
}

func (b *bench) FailedOpen() { b.APIWrite("failed", "open") }

func (b *bench) problem(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, ReasonOf(err))
}

// newBench makes a Reporter that does not run yet.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{fakeAPI: newFakeAPI(t), states: make(chan State), done: make(chan error, 1)}
	r, err := NewReporter(Options{
		Config: b.config(), Node: nodeName, UserAgent: "prewarm/test", Observer: b, Problem: b.problem,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Reporter = r
	return b
}

// start runs the Reporter; what it does at once has been done when start returns.
func (b *bench) start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	go func() { b.done <- b.Run(ctx, upTo(ctx, b.states)) }()
	t.Cleanup(func() { b.end(t) })
	synctest.Wait()
}

// end ends the Reporter, as SIGTERM does; it has to do so at once.
func (b *bench) end(t *testing.T) {
	t.Helper()
	since := time.Now()
	b.stop()
	if err := <-b.done; err != nil || time.Since(since) > 0 {
		t.Errorf("Run ended after %v with %v", time.Since(since), err)
	}
	b.done <- nil
}

func upTo(ctx context.Context, states <-chan State) iter.Seq[State] {
	return func(yield func(State) bool) {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-states:
				if !yield(s) {
					return
				}
			}
		}
	}
}

// say gives the Reporter a state; what it does at once has been done when say returns.
func (b *bench) say(s State) {
	b.states <- s
	synctest.Wait()
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// settle lets the pause after a write pass.
func (b *bench) settle() { b.pass(settle + time.Millisecond) }

// tries gives the number of writes that were tried.
func (b *bench) tries() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.writes)
}

func (b *bench) wantLabels(t *testing.T, what string, want ...string) {
	t.Helper()
	synctest.Wait()
	slices.Sort(want)
	if diff := cmp.Diff(append([]string{}, want...), b.labels()); diff != "" {
		t.Errorf("%s: labels differ (-want +got):\n%s", what, diff)
	}
}

func (b *bench) wantWrites(t *testing.T, what string, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if diff := cmp.Diff(want, b.writes); diff != "" {
		t.Errorf("%s: writes differ (-want +got):\n%s", what, diff)
	}
}

func (b *bench) wantProblems(t *testing.T, what string, want ...Reason) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if diff := cmp.Diff(want, b.problems); diff != "" {
		t.Errorf("%s: problems differ (-want +got):\n%s", what, diff)
	}
}

const (
	readyLabel = "prewarm.dev/image-ready=true"
	cpuLabel   = "image.prewarm.dev/cpu=0123456789ab"
	write      = "node success"
)

// ready is the state in which the image cpu is there, and lost the one in which it is not.
func ready() State {
	return State{Readiness: Ready, Images: map[string]Image{"cpu": {Readiness: Ready, Required: true, Digest: digest.Digest("sha256:0123456789abcdef")}}}
}

func lost() State {
	return State{Readiness: NotReady, Images: map[string]Image{"cpu": {Readiness: NotReady}}}
}

func unknown() State {
	return State{Images: map[string]Image{"cpu": {}}}
}

// inBubble runs a test on a clock of its own.
func inBubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
