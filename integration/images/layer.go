package images

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Compression is how a layer's tar is packed.
type Compression string

// The compressions that runtimes know.
const (
	Gzip         Compression = "gzip"
	Zstd         Compression = "zstd"
	Uncompressed Compression = "none"
)

// LayerSpec describes a layer.
type LayerSpec struct {
	// Content is what the layer has in it; none makes a tar without entries.
	Content []Content
	// Compression is Gzip where it is empty.
	Compression Compression
	// MediaType is what the manifest says of the layer, right or wrong; empty for the right one.
	MediaType string
	// Blob, where it is not nil, is the blob as it is, even of no bytes: no tar is made. Its diff ID is its own digest.
	Blob []byte
}

// Layer is a layer that was built.
type Layer struct {
	MediaType string `json:"mediaType"`
	// Digest and Size are the blob's, as it is in the registry.
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
	// DiffID and Unpacked are digest and size of the tar in it.
	DiffID   digest.Digest `json:"diffID"`
	Unpacked int64         `json:"unpacked"`
	// File has the blob.
	File string `json:"-"`
}

// Descriptor is what a manifest says of the layer.
func (l Layer) Descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: l.MediaType, Digest: l.Digest, Size: l.Size}
}

// layerFormat is part of the cache's keys: change it with anything that changes the bytes of layers.
const layerFormat = "1"

// mediaType is what a good manifest says of such a layer.
func (s LayerSpec) mediaType(docker bool) string {
	switch {
	case s.MediaType != "":
		return s.MediaType
	case docker && s.Compression == Uncompressed:
		return "application/vnd.docker.image.rootfs.diff.tar"
	case docker && s.Compression == Zstd:
		return "application/vnd.docker.image.rootfs.diff.tar.zstd"
	case docker:
		return "application/vnd.docker.image.rootfs.diff.tar.gzip"
	case s.Compression == Uncompressed:
		return ocispec.MediaTypeImageLayer
	case s.Compression == Zstd:
		return ocispec.MediaTypeImageLayerZstd
	default:
		return ocispec.MediaTypeImageLayerGzip
	}
}

// key names the layer in the cache: it changes with everything that changes the blob.
func (s LayerSpec) key() (string, error) {
	h := digest.SHA256.Digester()
	// A blob of no bytes is not the same as none, which makes an empty tar.
	_, err := fmt.Fprintf(h.Hash(), "%s\n%s\n%t %q\n", layerFormat, s.Compression, s.Blob != nil, s.Blob)
	for _, c := range s.Content {
		err = errors.Join(err, c.identify(h.Hash()))
	}
	return h.Digest().Encoded(), err
}

// buildLayer gives the layer from the cache in dir, or builds it into it. A cached layer is two files: the blob, and what
// is known of it, which is written last.
func buildLayer(ctx context.Context, dir string, s LayerSpec, docker bool) (Layer, error) {
	key, err := s.key()
	if err != nil {
		return Layer{}, err
	}
	l := Layer{MediaType: s.mediaType(docker), File: filepath.Join(dir, key+".blob")}
	info := filepath.Join(dir, key+".layer.json")
	if cached(info, &l) {
		return l, nil
	}
	f, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return l, err
	}
	if err := commit(f, l.File, func() error { return s.write(ctx, f, &l) }); err != nil {
		return l, err
	}
	text, err := json.Marshal(l)
	if err != nil {
		return l, err
	}
	return l, writeWhole(info, text)
}

// cached reads what is known of a layer, if its blob is there and whole.
func cached(info string, l *Layer) bool {
	text, err := os.ReadFile(info)
	if err != nil {
		return false
	}
	known := *l
	if err := json.Unmarshal(text, &known); err != nil {
		return false
	}
	known.MediaType = l.MediaType // is not part of the key
	if stat, err := os.Stat(l.File); err != nil || stat.Size() != known.Size {
		return false
	}
	*l = known
	return true
}

// write writes the blob and fills in digests and sizes.
func (s LayerSpec) write(ctx context.Context, f io.Writer, l *Layer) error {
	blob := newMeter(f)
	if s.Blob != nil {
		_, err := blob.Write(s.Blob)
		l.Digest, l.Size, l.DiffID, l.Unpacked = blob.digest(), blob.size, blob.digest(), blob.size
		return err
	}
	packer, err := s.Compression.writer(blob)
	if err != nil {
		return err
	}
	unpacked := newMeter(packer)
	tw := tar.NewWriter(unpacked)
	w := newWriter(tw)
	for _, c := range s.Content {
		if err := c.write(ctx, w); err != nil {
			return err
		}
	}
	if err := errors.Join(tw.Close(), packer.Close()); err != nil {
		return err
	}
	l.Digest, l.Size, l.DiffID, l.Unpacked = blob.digest(), blob.size, unpacked.digest(), unpacked.size
	return nil
}

// writer packs what is written, fast rather than small.
func (c Compression) writer(w io.Writer) (io.WriteCloser, error) {
	switch c {
	case Uncompressed:
		return nopCloser{w}, nil
	case Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	case Gzip, "":
		return gzip.NewWriterLevel(w, gzip.BestSpeed)
	default:
		return nil, fmt.Errorf("unknown compression %q", c)
	}
}

// meter hashes and counts what is written.
type meter struct {
	w    io.Writer
	hash hash.Hash
	size int64
}

func newMeter(w io.Writer) *meter { return &meter{w: w, hash: digest.SHA256.Hash()} }

func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.hash.Write(p[:n])
	m.size += int64(n)
	return n, err
}

func (m *meter) digest() digest.Digest { return digest.NewDigest(digest.SHA256, m.hash) }

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// commit writes a new file and gives it its name, or removes it.
func commit(f *os.File, name string, write func() error) error {
	if err := errors.Join(write(), f.Chmod(0o644), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), name)
}
