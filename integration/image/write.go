package image

import (
	"archive/tar"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Names in the folder of Write.
const (
	// LayoutFolder is an OCI image layout.
	LayoutFolder = "oci"
	// Archive is the same as a tar, which `ctr images import` takes.
	Archive = "prewarm.tar"
)

// sbomName is the file of a platform's list.
func sbomName(platform string) string {
	return "sbom-" + strings.ReplaceAll(platform, "/", "-") + ".spdx.json"
}

// Write writes the image, as a layout and as an archive, and the lists of what it is made of. It gives a line for each platform:
// what it is and how many bytes it has.
func Write(index v1.ImageIndex, o Options, folder string) ([]string, error) {
	oci := filepath.Join(folder, LayoutFolder)
	if err := os.RemoveAll(oci); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	path, err := layout.Write(oci, empty.Index)
	if err != nil {
		return nil, fmt.Errorf("layout: %w", err)
	}
	// Two names, for those who read the specification and for containerd.
	names := map[string]string{"org.opencontainers.image.ref.name": o.Version, "io.containerd.image.name": cmp.Or(o.Name, "docker.io/library/prewarm:"+o.Version)}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return nil, fmt.Errorf("layout: %w", err)
	}
	if err := archive(oci, filepath.Join(folder, Archive), o.Created); err != nil {
		return nil, err
	}
	for platform, binary := range o.Binaries {
		list, err := SBOM(binary, o)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(folder, sbomName(platform)), list, 0o644); err != nil {
			return nil, err
		}
	}
	return sizes(index)
}

// archive writes the files of a folder as a tar that depends on nothing but them.
func archive(folder, file string, at time.Time) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error { // in lexical order
		if err != nil || d.IsDir() {
			return err
		}
		return add(w, folder, path, at)
	})
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return w.Close()
}

func add(w *tar.Writer, folder, path string, at time.Time) error {
	rel, err := filepath.Rel(folder, path)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(rel), Mode: 0o644, Size: int64(len(content)), ModTime: at}); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

func sizes(index v1.ImageIndex) ([]string, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range manifest.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			return nil, err
		}
		n, err := Size(img)
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("%s  %s  %.1f MB", d.Platform, d.Digest, float64(n)/1e6))
	}
	return out, nil
}

// Size is how many bytes a pull of an image fetches: manifest, configuration and layers.
func Size(img v1.Image) (int64, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return 0, err
	}
	n, err := img.Size()
	if err != nil {
		return 0, err
	}
	n += manifest.Config.Size
	for _, l := range manifest.Layers {
		n += l.Size
	}
	return n, nil
}

// Push pushes the image, and for each platform what it is made of, as something that refers to it (OCI distribution
// specification, "Listing Referrers").
func Push(_ context.Context, index v1.ImageIndex, o Options, ref name.Reference, options ...remote.Option) error {
	if err := remote.WriteIndex(ref, index, options...); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, platform := range slices.Sorted(maps.Keys(o.Binaries)) {
		list, err := SBOM(o.Binaries[platform], o)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(manifest.Manifests, func(d v1.Descriptor) bool { return d.Platform.String() == platform })
		artifact, err := referrer(list, manifest.Manifests[i])
		if err != nil {
			return err
		}
		digest, err := artifact.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(ref.Context().Digest(digest.String()), artifact, options...); err != nil {
			return err
		}
	}
	return nil
}

// referrer makes a list into an artifact that refers to an image.
func referrer(list []byte, subject v1.Descriptor) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), SBOMMediaType)
	img, err := mutate.AppendLayers(img, static.NewLayer(list, SBOMMediaType))
	if err != nil {
		return nil, err
	}
	with, ok := mutate.Subject(img, v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("an image with a subject is no image any more")
	}
	return with, nil
}
