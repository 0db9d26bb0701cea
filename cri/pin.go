package cri

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

const (
	// labelPinned and valuePinned keep kubelet and containerd from collecting an image
	// (containerd internal/cri/labels, from 1.7.14 on).
	labelPinned = "io.cri-containerd.pinned"
	valuePinned = "pinned"
	// labelOwner says which image of the configuration a pin or a lease is for; what does not have it is not ours.
	labelOwner = "prewarm.dev/owner"
)

// Pin keeps an image from garbage collection, in the name of an entry of the configuration. It reports whether something
// had to be written. On a runtime that cannot pin the error is errors.ErrUnsupported.
//
// The record of the image ID and that of the digest are pinned. The record of the tag never is: whoever pulls the tag
// again replaces all its labels. A pin that somebody else has set stays his.
func (r *Runtime) Pin(ctx context.Context, img Image, owner string) (bool, error) {
	if r.native == nil {
		return false, fmt.Errorf("%s cannot pin images: %w", r.info.Name, errors.ErrUnsupported)
	}
	ctx = inNamespace(ctx)
	wrote := false
	for _, name := range records(img) {
		record, err := r.native.ImageService().Get(ctx, name)
		if errdefs.IsNotFound(err) && name != img.Config.String() {
			continue // a pull by tag of an image that was there under another name makes no record of the digest
		}
		if err != nil {
			return wrote, r.pinError(img, err)
		}
		pinned := record.Labels[labelPinned] == valuePinned
		if pinned && (record.Labels[labelOwner] == "" || record.Labels[labelOwner] == owner) {
			continue
		}
		if err := r.label(ctx, name, map[string]string{labelPinned: valuePinned, labelOwner: owner}); err != nil {
			return wrote, r.pinError(img, err)
		}
		wrote = true
	}
	return wrote, nil
}

// Pinned reports whether the kubelet will see that an image is pinned: that is CRI's word, which a misspelt label does not
// change. CRI hears of a pin within a fraction of a second.
func (r *Runtime) Pinned(ctx context.Context, img Image) (bool, error) {
	status, err := r.status(ctx, img.Reference)
	if err != nil {
		return false, err
	}
	return status.GetPinned(), nil
}

// Pin is a record that we have pinned.
type Pin struct {
	// Name is that of the image record: an image ID, or a repository with a digest.
	Name string
	// Owner is the image of the configuration for which it was pinned.
	Owner string
	// Target is the digest of the manifest or index that the record stands for.
	Target digest.Digest
}

// Pins lists what we have pinned.
func (r *Runtime) Pins(ctx context.Context) ([]Pin, error) {
	if r.native == nil {
		return nil, nil
	}
	list, err := r.native.ImageService().List(inNamespace(ctx), fmt.Sprintf("labels.%q", labelOwner))
	if err != nil {
		return nil, r.runtimeError("pins", err)
	}
	pins := make([]Pin, 0, len(list))
	for _, i := range list {
		pins = append(pins, Pin{Name: i.Name, Owner: i.Labels[labelOwner], Target: i.Target.Digest})
	}
	return pins, nil
}

// Unpin lets go of what we have pinned, if it is still ours; a record that is gone is no error. The image stays until
// somebody collects it.
func (r *Runtime) Unpin(ctx context.Context, pins ...Pin) error {
	if r.native == nil {
		return nil
	}
	ctx = inNamespace(ctx)
	var errs []error
	for _, p := range pins {
		record, err := r.native.ImageService().Get(ctx, p.Name)
		if errdefs.IsNotFound(err) || err == nil && record.Labels[labelOwner] != p.Owner {
			continue
		}
		if err == nil {
			err = r.label(ctx, p.Name, map[string]string{labelPinned: "", labelOwner: ""})
		}
		if err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, r.runtimeError("pin of "+p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// PinsOf picks the pins of an image of the configuration that are not those of img: what it has left behind.
func PinsOf(pins []Pin, owner string, img Image) []Pin {
	var old []Pin
	for _, p := range pins {
		if p.Owner == owner && p.Name != img.Config.String() && p.Name != byDigest(img) {
			old = append(old, p)
		}
	}
	return old
}

// records are the names under which containerd keeps an image, beside the tag.
func records(img Image) []string { return []string{img.Config.String(), byDigest(img)} }

func byDigest(img Image) string { return img.Reference.Repository() + "@" + img.Digest.String() }

// label sets labels of an image record by field path, so that what others write at the same time stays; an empty value
// removes a label.
func (r *Runtime) label(ctx context.Context, name string, labels map[string]string) error {
	var paths []string
	for key := range labels {
		paths = append(paths, "labels."+key)
	}
	_, err := r.native.ImageService().Update(ctx, images.Image{Name: name, Labels: labels}, paths...)
	return err
}

// pinError says what it means that an image cannot be pinned: mostly that it has just been deleted.
func (r *Runtime) pinError(img Image, err error) error {
	if errdefs.IsNotFound(err) {
		return &Error{Reason: ReasonNotPresent, Noun: img.Reference.String(), Err: fmt.Errorf("its record is gone: %w", err)}
	}
	return r.runtimeError(img.Reference.String(), err)
}
