package main

import (
	"context"
	"time"

	"github.com/prewarm-dev/prewarm/agent/credentials"
	"github.com/prewarm-dev/prewarm/cmd/prewarm/internal/view"
	"github.com/prewarm-dev/prewarm/cri"
)

// puller takes references through the phases of a pull and shows them.
type puller struct {
	runtime  containerRuntime
	keychain *credentials.Keychain
	display  display
	engine   cri.Engine
}

// pull pulls one reference and shows how it ended.
func (p puller) pull(ctx context.Context, arg string) view.Result {
	started := time.Now()
	name := view.Name(arg)
	progress := cri.Progress{Image: name, Reference: name}
	if ctx.Err() != nil {
		r := view.Result{Progress: progress, Outcome: view.NotTried, Err: context.Cause(ctx)}
		p.display.End(r)
		return r
	}
	outcome, err := p.phases(ctx, arg, &progress)
	if err != nil {
		outcome = view.Failed
		progress.Rate, progress.ETASeconds = 0, nil
		progress.Phase, progress.Reason, progress.Message = cri.PhaseFailed, cri.ReasonOf(err), view.Message(progress.Reference, err)
	}
	r := view.Result{Progress: progress, Outcome: outcome, Err: err, Took: time.Since(started)}
	p.display.End(r)
	return r
}

// phases leaves in progress how far it came.
func (p puller) phases(ctx context.Context, arg string, progress *cri.Progress) (view.Outcome, error) {
	if ref, err := cri.ParseReference(arg); err == nil {
		progress.Image, progress.Reference = ref.String(), ref.String()
		p.show(progress, cri.PhaseResolving)
	}
	img, err := resolve(ctx, p.runtime, p.keychain, arg)
	if err != nil {
		return "", err
	}
	progress.Digest = img.Digest
	p.show(progress, cri.PhaseVerifying)
	check, err := p.runtime.Verify(ctx, img)
	if err == nil {
		ready(progress, check)
		present(progress, img)
		return view.Present, nil
	}
	if !missing(err) {
		return "", err
	}
	if err := p.fetch(ctx, img, progress); err != nil {
		return "", err
	}
	p.show(progress, cri.PhaseVerifying)
	if check, err = p.runtime.Verify(ctx, img); err != nil {
		return "", err
	}
	ready(progress, check)
	return view.Pulled, nil
}

// fetch pulls what is missing of an image.
func (p puller) fetch(ctx context.Context, img cri.Image, progress *cri.Progress) error {
	return p.keychain.Try(ctx, img.Reference, func(c *cri.Credential) error {
		for next, err := range p.runtime.Pull(ctx, img, cri.PullOptions{
			Name: img.Reference.String(), Engine: p.engine, Interval: lookInterval, StallTimeout: 0, Credential: c,
		}) {
			*progress = next
			if err != nil {
				return err
			}
			p.display.Show(next)
		}
		return nil
	})
}

// show shows that an image came into a phase in which nothing is fetched.
func (p puller) show(progress *cri.Progress, phase cri.Phase) {
	progress.Phase, progress.Rate, progress.ETASeconds = phase, 0, nil
	p.display.Show(*progress)
}

// missing reports whether a failed proof means that the image has to be pulled.
func missing(err error) bool {
	switch cri.ReasonOf(err) {
	case cri.ReasonNotPresent, cri.ReasonNotUnpacked, cri.ReasonOtherImage:
		return true
	default:
		return false
	}
}

func ready(progress *cri.Progress, check string) {
	progress.Phase, progress.Verified, progress.ReadyAt = cri.PhaseReady, check, time.Now()
}

// present fills in what no pull has told of an image that is there.
func present(progress *cri.Progress, img cri.Image) {
	progress.Message = string(view.Present)
	progress.Bytes = cri.Bytes{Total: img.Size(), Present: img.Size()}
	for _, l := range img.Layers {
		progress.Layers = append(progress.Layers, cri.LayerProgress{
			Digest: l.Digest, ChainID: l.ChainID, Size: l.Size, Fetched: l.Size, State: cri.LayerDone,
		})
	}
}
