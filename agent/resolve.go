package agent

import (
	"context"

	"github.com/prewarm-dev/prewarm/cri"
)

// present looks for the image on the node: what is there and proven needs no registry, exactly as for a pod with pull
// policy IfNotPresent.
func (l *life) present(ctx context.Context) (cri.Image, string, error) {
	l.report(ctx, func(p *cri.Progress) {
		p.Phase, p.Reason, p.Message = cri.PhaseResolving, "", ""
	})
	return l.look(ctx)
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
	img, err := l.runtime.Resolve(ctx, l.entry.Reference)
	if err != nil {
		return img, err
	}
	l.report(ctx, func(p *cri.Progress) {
		p.Digest, p.Bytes = img.Digest, cri.Bytes{Total: img.Size()}
	})
	return img, nil
}
