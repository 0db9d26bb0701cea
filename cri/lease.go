package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
)

const (
	// leasePrefix begins the name of every lease that is ours.
	leasePrefix = "prewarm/"
	// leaseOwner marks leases that are ours for those who list them.
	leaseOwner = "prewarm.dev/owner"
	// leaseExpiry is how long a partial download is kept when nobody comes back for it.
	leaseExpiry = 24 * time.Hour
)

// hold makes the lease that keeps what a pull fetches: without it containerd drops a half layer, and the complete ones
// beside it, within seconds of a cancelled pull. Its name is fixed, so that the next try, or the next process, finds
// what the last one left.
func (r *Runtime) hold(ctx context.Context, name string) (leases.Lease, error) {
	l := leases.Lease{ID: leasePrefix + name}
	_, err := r.native.LeasesService().Create(inNamespace(ctx),
		leases.WithID(l.ID), leases.WithExpiration(leaseExpiry), leases.WithLabel(leaseOwner, "prewarm"))
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return leases.Lease{}, r.runtimeError("lease "+l.ID, err)
	}
	return l, nil
}

// release gives up the lease; what no image refers to is then garbage for containerd to collect.
func (r *Runtime) release(ctx context.Context, l leases.Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
	defer cancel()
	err := r.native.LeasesService().Delete(inNamespace(ctx), l)
	if err != nil && !errors.Is(err, errdefs.ErrNotFound) {
		return fmt.Errorf("lease %s: %w", l.ID, err)
	}
	return nil
}
