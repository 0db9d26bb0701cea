// Package images builds container images of real files, deterministically, and in every shape that a registry can hold:
// good ones and broken ones.
package images

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
)

// Media types of Docker's images (schema 2); OCI's are in ocispec.
const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerConfig   = "application/vnd.docker.container.image.v1+json"
)

// Spec describes an image.
type Spec struct {
	// Layers are the layers from the lowest up; none is allowed.
	Layers []LayerSpec
	// Platform is what the configuration says; empty for this machine's.
	Platform ocispec.Platform
	// Docker gives the image Docker's media types instead of OCI's.
	Docker bool
	// Labels go into the configuration. Two images with the same layers differ by them.
	Labels map[string]string
}

// Image is an image that was built.
type Image struct {
	// Descriptor is what an index says of it: media type, digest and size of the manifest, and the platform.
	Descriptor ocispec.Descriptor
	// Manifest is the manifest's bytes.
	Manifest []byte
	// Config describes the configuration; its digest is the image ID.
	Config ocispec.Descriptor
	// Layers are the layers from the lowest up.
	Layers []Layer

	configFile string
}

// Build builds an image. Its blobs are files in dir, which is also a cache: what is there already is not built again.
func Build(ctx context.Context, dir string, s Spec) (*Image, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("build an image: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("build an image: %w", err)
	}
	img := &Image{Layers: make([]Layer, len(s.Layers))}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for i, l := range s.Layers {
		group.Go(func() (err error) {
			if img.Layers[i], err = buildLayer(ctx, dir, l, s.Docker); err != nil {
				return fmt.Errorf("build layer %d: %w", i, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if s.Platform.OS == "" {
		s.Platform = ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH}
	}
	if err := img.describe(dir, s); err != nil {
		return nil, fmt.Errorf("build an image: %w", err)
	}
	return img, nil
}

// describe writes configuration and manifest of an image that has its layers.
func (i *Image) describe(dir string, s Spec) error {
	config := ocispec.Image{
		Platform: s.Platform, Config: ocispec.ImageConfig{Labels: s.Labels, Cmd: []string{"/bin/sh"}},
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{}},
	}
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Layers: []ocispec.Descriptor{},
	}
	for _, l := range i.Layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.DiffID)
		manifest.Layers = append(manifest.Layers, l.Descriptor())
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	i.Config = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(text), Size: int64(len(text))}
	if s.Docker {
		manifest.MediaType, i.Config.MediaType = dockerManifest, dockerConfig
	}
	manifest.Config = i.Config
	if i.Manifest, err = json.Marshal(manifest); err != nil {
		return err
	}
	i.Descriptor = ocispec.Descriptor{
		MediaType: manifest.MediaType, Digest: digest.FromBytes(i.Manifest), Size: int64(len(i.Manifest)), Platform: &s.Platform,
	}
	i.configFile = filepath.Join(dir, i.Config.Digest.Encoded()+".json")
	return writeWhole(i.configFile, text)
}

// Blobs are the configuration and the layers, each once.
func (i *Image) Blobs() map[digest.Digest]int64 {
	blobs := map[digest.Digest]int64{i.Config.Digest: i.Config.Size}
	for _, l := range i.Layers {
		blobs[l.Digest] = l.Size
	}
	return blobs
}

// Size is what a registry sends for a pull of the image into an empty runtime: manifest, configuration and each layer
// once, in bytes.
func (i *Image) Size() int64 {
	sum := i.Descriptor.Size
	for _, size := range i.Blobs() {
		sum += size
	}
	return sum
}

// writeWhole writes a file so that nobody ever sees half of it.
func writeWhole(name string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-")
	if err != nil {
		return err
	}
	return commit(f, name, func() error {
		_, err := f.Write(content)
		return err
	})
}
