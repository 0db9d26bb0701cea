package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
)

const (
	// leasePrefix begins the name of every lease that is ours.
	leasePrefix = "prewarm/"
	// byReference begins the names of those that are for a reference which no configuration names.
	byReference = "reference-"
	// collectTimeout bounds a garbage collection that is waited for: gigabytes are unlinked in seconds.
	collectTimeout = time.Minute
	// leaseExpiry is how long a partial download is kept when nobody comes back for it.
	leaseExpiry = 24 * time.Hour
)

// hold makes the lease that keeps what a pull fetches: without it containerd drops a half layer, and the complete ones
// beside it, within seconds of a cancelled pull. Its name is fixed, so that the next try, or the next process, finds
// what the last one left.
func (r *Runtime) hold(ctx context.Context, name string) (leases.Lease, error) {
	l := leases.Lease{ID: leasePrefix + name}
	_, err := r.native.LeasesService().Create(inNamespace(ctx),
		leases.WithID(l.ID), leases.WithExpiration(leaseExpiry), leases.WithLabel(labelOwner, name))
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return leases.Lease{}, r.runtimeError("lease "+l.ID, err)
	}
	return l, nil
}

// release gives up the lease; what no image refers to is then garbage, which containerd collects when it next does so by
// itself. With now it does so before this returns: room may be wanted at once.
func (r *Runtime) release(ctx context.Context, l leases.Lease, now bool) error {
	var options []leases.DeleteOpt
	limit := dialTimeout
	if now {
		options, limit = append(options, leases.SynchronousDelete), collectTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := r.native.LeasesService().Delete(inNamespace(ctx), l, options...)
	if err != nil && !errors.Is(err, errdefs.ErrNotFound) {
		return fmt.Errorf("lease %s: %w", l.ID, err)
	}
	return nil
}

// DropLeases gives up the leases of ours that nobody needs any more: those of images that keep does not name, which is
// asked with an empty name for those of pulls by hand. It gives the names of what it dropped. Leases of others are not
// touched.
func (r *Runtime) DropLeases(ctx context.Context, keep func(image string) bool) ([]string, error) {
	if r.native == nil {
		return nil, nil
	}
	list, err := r.native.LeasesService().List(inNamespace(ctx), fmt.Sprintf("labels.%q", labelOwner))
	if err != nil {
		return nil, r.runtimeError("leases", err)
	}
	var dropped []string
	var errs []error
	for _, l := range list {
		image, ours := strings.CutPrefix(l.ID, leasePrefix)
		owner := image
		if strings.HasPrefix(image, byReference) {
			owner = ""
		}
		if !ours || keep(owner) {
			continue
		}
		if err := r.release(ctx, l, true); err != nil {
			errs = append(errs, err)
			continue
		}
		dropped = append(dropped, image)
	}
	return dropped, errors.Join(errs...)
}
