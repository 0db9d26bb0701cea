package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Local tells what a reference means to the runtime, without asking a registry: that is what a pod with pull policy
// IfNotPresent would start from. ErrNotPresent where the runtime does not have it.
func (r *Runtime) Local(ctx context.Context, ref Reference) (Image, error) {
	notPresent := func(err error) error {
		return &Error{Reason: ReasonNotPresent, Noun: ref.String(), Err: err}
	}
	if r.native == nil {
		img, err := r.status(ctx, ref)
		if err != nil {
			return Image{}, err
		}
		return Image{Reference: ref, Digest: repoDigest(img, ref), Config: digest.Digest(img.GetId())}, nil
	}
	nctx, cancel := context.WithTimeout(inNamespace(ctx), callTimeout) // content is a stream, which has no time limit of its own
	defer cancel()
	record, err := r.native.ImageService().Get(nctx, ref.Canonical())
	if errdefs.IsNotFound(err) {
		return Image{}, notPresent(errors.New("the runtime has no image of this name"))
	} else if err != nil {
		return Image{}, r.runtimeError(ref.String(), err)
	}
	img, err := r.describe(nctx, ref, record.Target, r.native.ContentStore())
	if errdefs.IsNotFound(err) {
		return Image{}, notPresent(fmt.Errorf("the runtime has the name but not the manifest: %w", err))
	} else if err != nil {
		if ctx.Err() == nil && nctx.Err() != nil {
			err = &Error{Reason: ReasonRuntimeUnavailable, Noun: ref.String(), Err: err, Remedy: remedies[ReasonRuntimeUnavailable]}
		}
		return Image{}, err
	}
	return img, nil
}

// status asks CRI for the image of a reference; ErrNotPresent where there is none.
func (r *Runtime) status(ctx context.Context, ref Reference) (*runtimeapi.Image, error) {
	resp, err := r.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref.Canonical()}})
	if err != nil {
		return nil, r.runtimeError(ref.String(), err)
	}
	if resp.GetImage() == nil {
		return nil, &Error{Reason: ReasonNotPresent, Noun: ref.String(), Err: errors.New("the runtime does not have it")}
	}
	return resp.GetImage(), nil
}

// repoDigest is the digest under which the runtime knows an image in the repository of ref; empty where it does not say.
func repoDigest(img *runtimeapi.Image, ref Reference) digest.Digest {
	prefix := ref.Repository() + "@"
	i := slices.IndexFunc(img.GetRepoDigests(), func(s string) bool { return strings.HasPrefix(s, prefix) })
	if i < 0 {
		return ref.Digest()
	}
	return digest.Digest(strings.TrimPrefix(img.GetRepoDigests()[i], prefix))
}

// describe reads manifest and configuration of a resolved reference for this node's platform, and computes the chain
// IDs (OCI image-spec, config.md).
func (r *Runtime) describe(ctx context.Context, ref Reference, target ocispec.Descriptor, provider content.Provider) (Image, error) {
	manifest, err := images.Manifest(ctx, provider, target, platforms.Default())
	if err != nil {
		return Image{}, err
	}
	b, err := content.ReadBlob(ctx, provider, manifest.Config)
	if err != nil {
		return Image{}, fmt.Errorf("configuration %s: %w", manifest.Config.Digest, err)
	}
	invalid := func(err error) error { return &Error{Reason: ReasonInvalidImage, Noun: ref.String(), Err: err} }
	var config ocispec.Image
	if err := json.Unmarshal(b, &config); err != nil {
		return Image{}, invalid(fmt.Errorf("configuration %s: %w", manifest.Config.Digest, err))
	}
	if len(config.RootFS.DiffIDs) != len(manifest.Layers) {
		return Image{}, invalid(fmt.Errorf("the manifest has %d layers, its configuration %s has %d",
			len(manifest.Layers), manifest.Config.Digest, len(config.RootFS.DiffIDs)))
	}
	img := Image{Reference: ref, Digest: target.Digest, Config: manifest.Config.Digest, Platform: platforms.Format(config.Platform)}
	chain := identity.ChainIDs(slices.Clone(config.RootFS.DiffIDs))
	for i, l := range manifest.Layers {
		if err := l.Digest.Validate(); err != nil {
			return Image{}, invalid(fmt.Errorf("layer %d has digest %q: %w", i+1, l.Digest, err))
		}
		img.Layers = append(img.Layers, Layer{
			Digest: l.Digest, Size: l.Size, MediaType: l.MediaType, ChainID: chain[i], ingestRef: remotes.MakeRefKey(ctx, l),
		})
	}
	return img, nil
}
