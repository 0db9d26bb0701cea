package agent

import (
	"github.com/prewarm-dev/prewarm/agent/config"
	"github.com/prewarm-dev/prewarm/agent/metrics"
	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// Board is where the agent writes its state down; reporters read it there.
type Board interface {
	// SetImages says which images this node needs, in order; the state of those that stay is kept.
	SetImages(images []config.Image)
	// Update changes the state of one image; a change that the table of phases forbids is refused.
	Update(name string, change func(*status.ImageStatus)) error
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
	// PinRestored counts pins that were gone and have been set again.
	PinRestored(name string)
	// Refreshed counts questions to the registry what a reference means now; reason is empty when there was an answer and
	// what it named is ready.
	Refreshed(name string, reason cri.Reason)
	ConfigurationLoaded(err error)
	// RuntimeReconnected counts streams of events that broke.
	RuntimeReconnected()
}

var (
	_ Board    = (*status.Store)(nil)
	_ Recorder = (*metrics.Metrics)(nil)
)
