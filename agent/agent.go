// Package agent keeps the configured images of one node ready: present, unpacked and proven, and says so.
//
// This file is the loop. An image's life is in life.go, with one file for each of its steps.
package agent

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"

	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/cri"
)

// Runtime is what the agent needs of a container runtime; *cri.Runtime is one. Its methods are documented there.
type Runtime interface {
	Info() cri.Info
	Local(ctx context.Context, ref cri.Reference) (cri.Image, error)
	Resolve(ctx context.Context, ref cri.Reference) (cri.Image, error)
	Pull(ctx context.Context, img cri.Image, o cri.PullOptions) iter.Seq2[cri.Progress, error]
	Verify(ctx context.Context, img cri.Image) (string, error)
	Events(ctx context.Context) iter.Seq2[cri.Event, error]
}

var _ Runtime = (*cri.Runtime)(nil)

// Board is where the agent writes its state down; reporters read it there.
type Board interface {
	// SetImages says which images this node needs, in order; the state of those that stay is kept.
	SetImages(images []config.Image)
	// Update changes the state of one image; a change that the table of phases forbids is refused.
	Update(name string, change func(*cri.Progress)) error
	// SetConfiguration tells what became of a configuration.
	SetConfiguration(u config.Update)
	// SetRuntime says which runtime it is, or why it cannot be reached.
	SetRuntime(info cri.Info, err error)
}

// Recorder counts what happened.
type Recorder interface {
	// PullEnded counts a pull; reason is empty when it went well.
	PullEnded(last cri.Progress, reason cri.Reason)
	ImageLost(name string, reason cri.Reason)
	ConfigurationLoaded(err error)
	// RuntimeReconnected counts streams of events that broke.
	RuntimeReconnected()
}

// Options is what an agent works with.
type Options struct {
	Runtime  Runtime
	Board    Board
	Recorder Recorder
	Logger   *slog.Logger
	// Configurations yields the configuration and its changes.
	Configurations <-chan config.Update
	// Facts yields what decides which images this node needs, and its changes.
	Facts <-chan config.NodeFacts
}

// Agent is the loop over all images of a node.
type Agent struct {
	Options

	configuration *config.Configuration
	facts         *config.NodeFacts
	queue         *queue
	lives         map[string]*running
	wg            sync.WaitGroup
}

// running is a life and how to end it.
type running struct {
	life  *life
	stop  context.CancelFunc
	ended <-chan struct{}
}

// New makes an agent; Run does the work.
func New(o Options) *Agent {
	return &Agent{Options: o, queue: newQueue(1), lives: map[string]*running{}}
}

// Run keeps the node's images ready until ctx ends, and then waits for what it started. What was being fetched is kept
// by the runtime, so that the next agent goes on from there.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer a.wg.Wait()
	defer cancel()
	a.Board.SetRuntime(a.Runtime.Info(), nil)
	events := a.watchRuntime(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case u, ok := <-a.Configurations:
			if !ok {
				return errors.New("the source of the configuration has ended")
			}
			a.configure(ctx, u)
		case f := <-a.Facts:
			a.facts = &f
			a.reconcile(ctx)
		case e := <-events:
			for _, r := range a.lives {
				r.life.poke(e)
			}
		}
	}
}

// configure takes a configuration in; a bad one is told, and the last good one stays.
func (a *Agent) configure(ctx context.Context, u config.Update) {
	a.Board.SetConfiguration(u)
	a.Recorder.ConfigurationLoaded(u.Err)
	if u.Err != nil {
		a.Logger.ErrorContext(ctx, "configuration refused, the last good one stays in force", "error", u.Err)
		return
	}
	a.configuration = u.Configuration
	a.reconcile(ctx)
}
