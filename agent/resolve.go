package agent

import (
	"context"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// present looks for the image on the node: what is there and proven needs no registry, exactly as for a pod with pull
// policy IfNotPresent. That it is not there is told at once: the registry may take its time.
func (l *life) present(ctx context.Context) (cri.Image, string, error) {
	l.report(ctx, func(p *status.ImageStatus) {
		p.Phase, p.Reason, p.Message = cri.PhaseResolving, "", ""
	})
	img, check, err := l.look(ctx)
	if err != nil && canAsk(err) {
		l.report(ctx, func(p *status.ImageStatus) { p.Reason, p.Message = cri.ReasonOf(err), err.Error() })
	}
	return img, check, err
}

// look finds and proves what the runtime has under the reference.
func (l *life) look(ctx context.Context) (cri.Image, string, error) {
	img, err := l.runtime.Local(ctx, l.entry.Reference)
	if err != nil {
		return img, "", err
	}
	check, err := l.runtime.Verify(ctx, img)
	return img, check, err
}

// resolve asks the registry what the reference means now.
func (l *life) resolve(ctx context.Context) (cri.Image, error) {
	img, err := l.ask(ctx)
	if err != nil {
		return img, err
	}
	l.report(ctx, func(p *status.ImageStatus) {
		p.Digest, p.Bytes, p.Layers = img.Digest, cri.Bytes{Total: img.Size()}, nil // where they stand the pull finds out
	})
	return img, nil
}

// ask asks the registry, with what it wants to know of us.
func (l *life) ask(ctx context.Context) (img cri.Image, err error) {
	err = l.keychain.Try(ctx, l.entry.Reference, func(c *cri.Credential) error {
		img, err = l.runtime.Resolve(ctx, l.entry.Reference, c)
		return err
	})
	return img, err
}
