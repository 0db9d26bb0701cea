package agent

import (
	"context"
	"fmt"

	"github.com/prewarm-dev/prewarm/agent/status"
	"github.com/prewarm-dev/prewarm/cri"
)

// guard wants room for a pull: compressed and unpacked bytes are on the disk at the same time, and the kubelet must
// neither begin to delete images nor to evict pods because of us. The room is claimed until unclaim. The error has the numbers.
func (l *life) guard(ctx context.Context, img cri.Image) error {
	plan, err := l.runtime.Plan(ctx, img)
	if err != nil || plan.Disk == nil { // where the disk cannot be seen, the pull itself tells
		return err
	}
	kubelet := l.permit.thresholds()
	need, keep := plan.Fetch+plan.Unpack, kubelet.Keep(plan.Disk.Total, l.disk.HeadroomPercent)
	l.report(ctx, func(p *status.ImageStatus) { p.Room = status.Room{Need: need, Free: plan.Disk.Free, Keep: keep} })
	others, ok := l.permit.claim(l, need, plan.Disk.Free-keep)
	if ok {
		return nil
	}
	also := ""
	if others > 0 {
		also = fmt.Sprintf(", other pulls that run %s", gigabytes(others))
	}
	return &cri.Error{
		Reason: cri.ReasonDiskTooSmall, Noun: l.entry.Reference.String(), Remedy: "make room on the node, or give nodes larger disks",
		Err: fmt.Errorf("%s has %s free of %s; the pull needs %s (%s to fetch, ~%s to unpack)%s and %s must stay free (%s)",
			plan.Disk.Path, gigabytes(plan.Disk.Free), gigabytes(plan.Disk.Total), gigabytes(need), gigabytes(plan.Fetch), gigabytes(plan.Unpack), also,
			gigabytes(keep), kubelet.Explain(l.disk.HeadroomPercent)),
	}
}

func gigabytes(n int64) string { return fmt.Sprintf("%.2f GB", float64(n)/1e9) }
