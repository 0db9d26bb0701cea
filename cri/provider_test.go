package cri

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// storeFunc is a content store.
type storeFunc func(ocispec.Descriptor) (content.ReaderAt, error)

func (f storeFunc) ReaderAt(_ context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	return f(desc)
}

// vanishing is content that is taken away once it has been opened.
type vanishing struct{ blob }

func (vanishing) ReadAt([]byte, int64) (int, error) { return 0, errdefs.ErrNotFound }

// What the runtime stores is not fetched; what it loses while it is read, or has spoiled, is.
func TestStoredContentIsUsedIfItIsWhole(t *testing.T) {
	t.Parallel()
	want := []byte(`{"schemaVersion": 2}`)
	spoiled := bytes.Repeat([]byte("x"), len(want))
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(want), Size: int64(len(want))}
	for name, test := range map[string]struct {
		store   storeFunc
		fetches int
	}{
		"stored": {func(ocispec.Descriptor) (content.ReaderAt, error) { return blob(want), nil }, 0},
		"absent": {func(ocispec.Descriptor) (content.ReaderAt, error) { return nil, errdefs.ErrNotFound }, 1},
		"lost while it is read": {func(ocispec.Descriptor) (content.ReaderAt, error) {
			return vanishing{blob(want)}, nil
		}, 1},
		"spoiled": {func(ocispec.Descriptor) (content.ReaderAt, error) { return blob(spoiled), nil }, 1},
		"cut":     {func(ocispec.Descriptor) (content.ReaderAt, error) { return blob(want[:3]), nil }, 1},
	} {
		fetches := 0
		p := &provider{local: test.store, fetcher: remotes.FetcherFunc(func(context.Context, ocispec.Descriptor) (io.ReadCloser, error) {
			fetches++
			return io.NopCloser(bytes.NewReader(want)), nil
		})}
		got, err := content.ReadBlob(t.Context(), p, desc)
		if err != nil || !bytes.Equal(got, want) || fetches != test.fetches {
			t.Errorf("%s: read %q, %v with %d fetches, want %q with %d", name, got, err, fetches, want, test.fetches)
		}
	}
}
