package cri

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// The checks on which ready can rest.
const (
	VerifiedSnapshots = "snapshots" // every chain ID is committed in the snapshotter that CRI uses
	VerifiedRuntime   = "runtime"   // the runtime says that it is present; it has no API that tells more
)

// Verify proves that an image is ready: present under its reference, with the configuration that was resolved, and every
// chain ID unpacked in the snapshotter that CRI uses. It returns on which check that rests, or ErrNotPresent,
// ErrOtherImage or ErrNotUnpacked, or another error where the runtime could not be asked.
//
// The image status alone proves little: containerd keeps saying that an image is present when its snapshots are gone
// (internal/cri/server/images/image_status.go). Blobs are not looked at, since a runtime may discard them.
func (r *Runtime) Verify(ctx context.Context, img Image) (string, error) {
	if err := r.recorded(ctx, img.Reference); err != nil {
		return "", err
	}
	present, err := r.status(ctx, img.Reference)
	if err != nil {
		return "", err
	}
	if id := digest.Digest(present.GetId()); img.Config != "" && id != img.Config {
		return "", &Error{
			Reason: ReasonOtherImage, Noun: img.Reference.String(),
			Err: fmt.Errorf("the runtime has image %s under this name, resolved was %s", id, img.Config),
		}
	}
	if r.native == nil {
		return VerifiedRuntime, nil
	}
	n, err := r.committed(inNamespace(ctx), img, nil)
	if err != nil {
		return "", err
	}
	if n < len(img.Layers) {
		return "", &Error{
			Reason: ReasonNotUnpacked, Noun: img.Reference.String(),
			Err: fmt.Errorf("layer %d of %d (%s) is not unpacked in snapshotter %s", n+1, len(img.Layers), img.Layers[n].ChainID, r.info.Snapshotter),
		}
	}
	return VerifiedSnapshots, nil
}

// recorded wants containerd's own record of an image: CRI answers from memory, which is behind for a moment when somebody
// has removed the image past CRI (internal/cri/server/events.go), and nothing tells when it has caught up.
func (r *Runtime) recorded(ctx context.Context, ref Reference) error {
	if r.native == nil {
		return nil
	}
	_, err := r.native.ImageService().Get(inNamespace(ctx), ref.Canonical())
	if errdefs.IsNotFound(err) {
		return &Error{Reason: ReasonNotPresent, Noun: ref.String(), Err: errors.New("the runtime has no image of this name")}
	}
	return r.runtimeError(ref.String(), err)
}
