package agent

import (
	"context"
	"iter"

	"github.com/prewarm-dev/prewarm/cri"
)

// Runtime is what the agent needs of a container runtime; *cri.Runtime is one. Its methods are documented there.
type Runtime interface {
	looker
	puller
	keeper
}

// looker finds out what the runtime has.
type looker interface {
	Info() cri.Info
	Local(ctx context.Context, ref cri.Reference) (cri.Image, error)
	Verify(ctx context.Context, img cri.Image) (string, error)
	Events(ctx context.Context) iter.Seq2[cri.Event, error]
}

// puller brings images onto the node.
type puller interface {
	Resolve(ctx context.Context, ref cri.Reference, c *cri.Credential) (cri.Image, error)
	Plan(ctx context.Context, images ...cri.Image) (cri.Plan, error)
	Pull(ctx context.Context, img cri.Image, o cri.PullOptions) iter.Seq2[cri.Progress, error]
}

// keeper keeps them there, and lets go of what nobody needs any more.
type keeper interface {
	Pin(ctx context.Context, img cri.Image, owner string) (bool, error)
	Pinned(ctx context.Context, img cri.Image) (bool, error)
	Pins(ctx context.Context) ([]cri.Pin, error)
	Unpin(ctx context.Context, pins ...cri.Pin) error
	DropLeases(ctx context.Context, keep func(image string) bool) ([]string, error)
}

var _ Runtime = (*cri.Runtime)(nil)
