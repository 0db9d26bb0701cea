package images_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/prewarm-dev/prewarm/integration/images"
)

func build(t *testing.T, dir string, s images.Spec) *images.Image {
	t.Helper()
	img, err := images.Build(t.Context(), dir, s)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// layer is a small layer with one file.
func layer(name string, c images.Compression) images.LayerSpec {
	return images.LayerSpec{Compression: c, Content: []images.Content{images.File("dir/"+name, []byte(name))}}
}

// TestSameAgain holds that a spec has one image: in another folder, from the cache, and built several times at once.
func TestSameAgain(t *testing.T) {
	tree := t.TempDir()
	write(t, tree, map[string]int{"a": 10, "b/c": 20})
	spec := images.Spec{Labels: map[string]string{"x": "1", "y": "2", "z": "3"}, Layers: []images.LayerSpec{
		layer("one", images.Gzip), layer("two", images.Zstd), layer("three", images.Uncompressed),
		{Content: []images.Content{images.Random("r", 7, 200<<10), images.Tree{Dirs: []string{tree}, Limit: 1 << 20}}},
	}}
	dir := t.TempDir()
	want := build(t, dir, spec).Descriptor
	for name, dir := range map[string]string{"elsewhere": t.TempDir(), "cached": dir} {
		if diff := cmp.Diff(want, build(t, dir, spec).Descriptor); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	shared := t.TempDir()
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			img, err := images.Build(t.Context(), shared, spec)
			if err == nil && img.Descriptor.Digest != want.Digest {
				t.Errorf("at once: %s, want %s", img.Descriptor.Digest, want.Digest)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(shared, ".new-*")); err != nil || left != nil {
		t.Errorf("%v, %v are left", left, err)
	}
}

// TestDiffers holds that everything that a spec says is part of the image.
func TestDiffers(t *testing.T) {
	dir := t.TempDir()
	seen := map[digest.Digest]string{}
	random := func(name string, seed uint64, size int64) images.Spec {
		return images.Spec{Layers: []images.LayerSpec{{Content: []images.Content{images.Random(name, seed, size)}}}}
	}
	for name, s := range map[string]images.Spec{
		"no layers":   {},
		"labels":      {Labels: map[string]string{"a": "b"}},
		"docker":      {Docker: true},
		"platform":    {Platform: ocispec.Platform{OS: "linux", Architecture: "riscv64"}},
		"layer":       {Layers: []images.LayerSpec{layer("a", "")}},
		"other layer": {Layers: []images.LayerSpec{layer("b", "")}},
		"zstd":        {Layers: []images.LayerSpec{layer("a", images.Zstd)}},
		"plain":       {Layers: []images.LayerSpec{layer("a", images.Uncompressed)}},
		"order":       {Layers: []images.LayerSpec{layer("a", ""), layer("b", "")}},
		"other order": {Layers: []images.LayerSpec{layer("b", ""), layer("a", "")}},
		"twice":       {Layers: []images.LayerSpec{layer("a", ""), layer("a", "")}},
		"random":      random("r", 1, 100),
		"seed":        random("r", 2, 100),
		"size":        random("r", 1, 101),
		"name":        random("s", 1, 100),
	} {
		d := build(t, dir, s).Descriptor.Digest
		if other, ok := seen[d]; ok {
			t.Errorf("%q and %q are the same image", name, other)
		}
		seen[d] = name
	}
}

// TestLayers holds that each kind of layer is what its descriptor says: media type, digest and size of the blob, diff ID
// and size of the tar in it.
func TestLayers(t *testing.T) {
	const docker = "application/vnd.docker.image.rootfs.diff.tar"
	for name, c := range map[string]struct {
		spec      images.LayerSpec
		docker    bool
		mediaType string
		unpack    func(io.Reader) (io.Reader, error)
		files     []string
	}{
		"gzip":        {spec: layer("f", ""), mediaType: ocispec.MediaTypeImageLayerGzip, unpack: gunzip, files: []string{"dir/", "dir/f"}},
		"zstd":        {spec: layer("f", images.Zstd), mediaType: ocispec.MediaTypeImageLayerZstd, unpack: unzstd, files: []string{"dir/", "dir/f"}},
		"plain":       {spec: layer("f", images.Uncompressed), mediaType: ocispec.MediaTypeImageLayer, unpack: plain, files: []string{"dir/", "dir/f"}},
		"docker gzip": {spec: layer("f", images.Gzip), docker: true, mediaType: docker + ".gzip", unpack: gunzip, files: []string{"dir/", "dir/f"}},
		"docker zstd": {spec: layer("f", images.Zstd), docker: true, mediaType: docker + ".zstd", unpack: unzstd, files: []string{"dir/", "dir/f"}},
		"docker plain": {
			spec: layer("f", images.Uncompressed), docker: true, mediaType: docker, unpack: plain, files: []string{"dir/", "dir/f"},
		},
		"mislabelled": {
			spec:      images.LayerSpec{MediaType: ocispec.MediaTypeImageLayerZstd, Content: []images.Content{images.File("f", nil)}},
			mediaType: ocispec.MediaTypeImageLayerZstd, unpack: gunzip, files: []string{"f"},
		},
		"empty": {mediaType: ocispec.MediaTypeImageLayerGzip, unpack: gunzip},
		"not a tar": {
			spec: images.LayerSpec{Blob: []byte("nothing")}, mediaType: ocispec.MediaTypeImageLayerGzip,
		},
		"no bytes": {spec: images.LayerSpec{Blob: []byte{}}, mediaType: ocispec.MediaTypeImageLayerGzip},
		"paths": {
			spec: images.LayerSpec{Content: []images.Content{
				images.File("/a/b/c", nil), images.File("a/./b/d", nil), images.Random("e", 1, 10),
			}},
			mediaType: ocispec.MediaTypeImageLayerGzip, unpack: gunzip, files: []string{"a/", "a/b/", "a/b/c", "a/b/d", "e"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			img := build(t, t.TempDir(), images.Spec{Layers: []images.LayerSpec{c.spec}, Docker: c.docker})
			l := img.Layers[0]
			blob := read(t, l.File)
			if l.MediaType != c.mediaType || l.Digest != digest.FromBytes(blob) || l.Size != int64(len(blob)) {
				t.Errorf("%+v, want %s of %s with %d bytes", l, c.mediaType, digest.FromBytes(blob), len(blob))
			}
			text := blob
			if c.unpack != nil {
				text = unpacked(t, blob, c.unpack)
				if diff := cmp.Diff(c.files, names(t, text)); diff != "" {
					t.Errorf("in the layer:\n%s", diff)
				}
			}
			if l.DiffID != digest.FromBytes(text) || l.Unpacked != int64(len(text)) {
				t.Errorf("%+v, want diff ID %s with %d bytes", l, digest.FromBytes(text), len(text))
			}
		})
	}
}

// TestManifest holds that manifest and configuration agree with the layers and with each other, and what a pull costs.
func TestManifest(t *testing.T) {
	for name, spec := range map[string]images.Spec{
		"no layers": {},
		"layers":    {Layers: []images.LayerSpec{layer("a", ""), layer("b", images.Zstd)}},
		"twice":     {Layers: []images.LayerSpec{layer("a", ""), layer("b", ""), layer("a", "")}},
		"docker":    {Docker: true, Layers: []images.LayerSpec{layer("a", "")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			img := build(t, t.TempDir(), spec)
			if err := img.Push(s, "lab/x", "1"); err != nil {
				t.Fatal(err)
			}
			var manifest ocispec.Manifest
			unmarshal(t, s.manifests["lab/x:1"], &manifest)
			var config ocispec.Image
			unmarshal(t, s.blobs[manifest.Config.Digest], &config)
			want := img.Descriptor.Size + manifest.Config.Size
			seen := map[digest.Digest]bool{}
			if len(manifest.Layers) != len(spec.Layers) || len(config.RootFS.DiffIDs) != len(spec.Layers) {
				t.Fatalf("%d layers, %d diff IDs, want %d", len(manifest.Layers), len(config.RootFS.DiffIDs), len(spec.Layers))
			}
			for i, d := range manifest.Layers {
				if int64(len(s.blobs[d.Digest])) != d.Size || img.Layers[i].DiffID != config.RootFS.DiffIDs[i] {
					t.Errorf("layer %d: %+v, diff ID %s, %d bytes in the registry", i, d, config.RootFS.DiffIDs[i], len(s.blobs[d.Digest]))
				}
				if !seen[d.Digest] {
					want += d.Size
				}
				seen[d.Digest] = true
			}
			if img.Size() != want {
				t.Errorf("size %d, want %d: each blob once", img.Size(), want)
			}
			if got := img.Descriptor; got.Digest != digest.FromBytes(s.manifests["lab/x:1"]) || got.MediaType != manifest.MediaType {
				t.Errorf("descriptor %+v of a manifest of type %s", got, manifest.MediaType)
			}
			if strings.Contains(manifest.MediaType, "docker") != spec.Docker || strings.Contains(manifest.Config.MediaType, "docker") != spec.Docker {
				t.Errorf("media types %s and %s", manifest.MediaType, manifest.Config.MediaType)
			}
		})
	}
}

// TestCache holds that what is in the cache is used, that what is not whole there is built again, and that a build which
// fails leaves nothing half done.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	spec := images.Spec{Layers: []images.LayerSpec{{Content: []images.Content{images.Random("r", 1, 100<<10)}}}}
	img := build(t, dir, spec)
	file := img.Layers[0].File
	before := stat(t, file)
	build(t, dir, spec)
	if !os.SameFile(before, stat(t, file)) {
		t.Error("a layer in the cache was built again")
	}
	if err := os.Truncate(file, 10); err != nil {
		t.Fatal(err)
	}
	build(t, dir, spec)
	if got := digest.FromBytes(read(t, file)); got != img.Layers[0].Digest {
		t.Errorf("half a blob in the cache: now %s, want %s", got, img.Layers[0].Digest)
	}

	dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tree := t.TempDir()
	write(t, tree, map[string]int{"a": 10})
	spec = images.Spec{Layers: []images.LayerSpec{{Content: []images.Content{images.Tree{Dirs: []string{tree}, Limit: 100}}}}}
	if _, err := images.Build(ctx, dir, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("a build that was cancelled: %v", err)
	}
	spec.Layers[0].Compression = "lzma"
	if _, err := images.Build(t.Context(), dir, spec); err == nil || !strings.Contains(err.Error(), "lzma") {
		t.Errorf("an unknown compression: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

func gunzip(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
func unzstd(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) }
func plain(r io.Reader) (io.Reader, error)  { return r, nil }

func unpacked(t *testing.T, blob []byte, unpack func(io.Reader) (io.Reader, error)) []byte {
	t.Helper()
	r, err := unpack(bytes.NewReader(blob))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// names lists what is in a tar.
func names(t *testing.T, text []byte) []string {
	t.Helper()
	var out []string
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, h.Name)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func stat(t *testing.T, name string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func unmarshal(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
}
