// Package agent keeps the configured images of one node ready: present, unpacked and proven, and says so.
//
// This file is the loop. An image's life is in life.go, with one file for each of its steps.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prewarm-dev/prewarm/agent/config"
)

// Options is what an agent works with.
type Options struct {
	// Connect connects to the runtime; it is called until it succeeds.
	Connect  func(context.Context) (Runtime, error)
	Board    Board
	Recorder Recorder
	Logger   *slog.Logger
	Keychain Keychain
	// Node is the name of this node, by which questions to registries are spread over time; may be empty.
	Node string
	// Configurations yields the configuration and its changes.
	Configurations <-chan config.Update
	// Facts yields what decides which images this node needs, and its changes.
	Facts <-chan config.NodeFacts
}

// Agent is the loop over all images of a node.
type Agent struct {
	Options

	runtime Runtime
	// asked is how others find out whether the loop goes round.
	asked         chan struct{}
	looping       atomic.Bool
	configuration *config.Configuration
	facts         *config.NodeFacts
	queue         *queue
	permit        *permit
	lives         map[string]*running
	sweeping      *sweeping // the last that was begun; nil before
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
	return &Agent{Options: o, queue: newQueue(), permit: newPermit(), asked: make(chan struct{}), lives: map[string]*running{}}
}

// Run keeps the node's images ready until ctx ends, and then waits for what it started. What was being fetched is kept
// by the runtime, so that the next agent goes on from there. The error says why it cannot go on at all.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer a.wg.Wait()
	defer cancel()
	if err := a.connect(ctx); err != nil {
		return err
	}
	events := a.watchRuntime(ctx)
	a.looping.Store(true)
	defer a.looping.Store(false)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.asked:
		case u, ok := <-a.Configurations:
			if !ok { // it ends with us, and it may hear of that first
				if wait(ctx, time.Second); ctx.Err() != nil {
					return nil
				}
				return errors.New("the source of the configuration has ended")
			}
			a.configure(ctx, u)
		case f := <-a.Facts:
			a.learn(ctx, f)
		case e := <-events:
			a.pass(ctx, e)
		}
	}
}
