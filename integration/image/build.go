// Package image makes prewarm's container image, without an engine and reproducibly.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Options says what the image is made of.
type Options struct {
	// Name is what a runtime that imports the archive calls the image; empty for prewarm:VERSION.
	Name              string
	Version, Revision string
	// Created is the time that the image and its file bear; nothing else in it depends on when or where it is made.
	Created time.Time
	// Binaries are the static binaries, by platform: linux/amd64.
	Binaries map[string]string
}

// Source is where the code is.
const Source = "https://github.com/prewarm-dev/prewarm"

// Build makes an index with an image for each platform.
func Build(o Options) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	if len(o.Binaries) == 0 {
		return nil, errors.New("no binaries: name at least one as linux/amd64=FILE")
	}
	for _, platform := range slices.Sorted(maps.Keys(o.Binaries)) {
		img, err := build(o, platform)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", platform, err)
		}
		system, arch, _ := strings.Cut(platform, "/")
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: system, Architecture: arch}},
		})
	}
	return index, nil
}

func build(o Options, platform string) (v1.Image, error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, errors.New("is no platform: write it as linux/amd64")
	}
	content, err := layer(o.Binaries[platform], o.Created)
	if err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: system, Architecture: arch, Created: v1.Time{Time: o.Created}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{"/prewarm"}, Cmd: []string{"agent"}, WorkingDir: "/",
			// The runtime's socket belongs to root; the DaemonSet takes every capability away.
			User: "0:0", Labels: labels(o),
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{
		Layer: l, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: o.Created}, CreatedBy: "make image"},
	})
}

// labels are those of the OCI image specification (annotations.md).
func labels(o Options) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "prewarm",
		"org.opencontainers.image.description": "Keeps big container images ready on Kubernetes nodes",
		"org.opencontainers.image.source":      Source,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     o.Version,
		"org.opencontainers.image.revision":    o.Revision,
		"org.opencontainers.image.created":     o.Created.Format(time.RFC3339),
	}
}

// layer is a tar with the binary, and nothing else.
func layer(file string, at time.Time) ([]byte, error) {
	binary, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err = w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: "prewarm", Mode: 0o755, Size: int64(len(binary)), ModTime: at, Format: tar.FormatPAX,
	})
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	return out.Bytes(), w.Close()
}
