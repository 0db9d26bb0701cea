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
	// leaseExpiry is how long a partial download is kept when nobody comes back for it. Whoever does has at least half of it
	// for a try.
	leaseExpiry = 48 * time.Hour
	// labelExpire is when containerd takes a lease for garbage (containerd docs/garbage-collection.md).
	labelExpire = "containerd.io/gc.expire"
)

// hold makes the lease that keeps what a pull fetches: without it containerd drops a half layer, and the complete ones
// beside it, within seconds of a cancelled pull. It is found by its owner, so that the next try, or the next process, goes on
// with what the last one left. One that expires soon is replaced, since containerd cannot make a lease last longer.
func (r *Runtime) hold(ctx context.Context, name string) (leases.Lease, error) {
	fail := func(err error) (leases.Lease, error) { return leases.Lease{}, r.runtimeError("lease of "+name, err) }
	ctx = inNamespace(ctx)
	manager := r.native.LeasesService()
	list, err := manager.List(ctx, fmt.Sprintf("labels.%q==%q", labelOwner, name))
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	for _, l := range list {
		if expires, err := time.Parse(time.RFC3339, l.Labels[labelExpire]); err == nil && expires.Sub(now) > leaseExpiry/2 {
			return l, nil
		}
	}
	id := leasePrefix + name
	if len(list) > 0 { // whose it still is
		id += now.UTC().Format("@20060102T150405.000")
	}
	l, err := manager.Create(ctx, leases.WithID(id), leases.WithExpiration(leaseExpiry), leases.WithLabel(labelOwner, name))
	if err != nil {
		return fail(err)
	}
	for _, old := range list {
		if err := r.inherit(ctx, l, old); err != nil {
			return fail(err)
		}
	}
	return l, nil
}

// inherit moves what a lease keeps to another one.
func (r *Runtime) inherit(ctx context.Context, l, old leases.Lease) error {
	manager := r.native.LeasesService()
	resources, err := manager.ListResources(ctx, old)
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	for _, kept := range resources {
		if err := manager.AddResource(ctx, l, kept); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	return r.release(ctx, old, false)
}

// release gives up the lease; what no image refers to is then garbage, which containerd collects when it next does so by
// itself. With now it does so before this returns: room may be wanted at once.
func (r *Runtime) release(ctx context.Context, l leases.Lease, now bool) error {
	var options []leases.DeleteOpt
	limit := dialTimeout
	if now {
		options, limit = append(options, leases.SynchronousDelete), collectTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
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
		image := l.Labels[labelOwner]
		owner := image
		if strings.HasPrefix(image, byReference) {
			owner = ""
		}
		if !strings.HasPrefix(l.ID, leasePrefix) || keep(owner) {
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
