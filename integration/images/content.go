package images

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"strings"
	"time"
)

// Content is something to be put into a layer.
type Content interface {
	// identify writes what the content depends on, for the cache's key.
	identify(w io.Writer) error
	write(ctx context.Context, w *writer) error
}

// File is a single file with the given bytes; name is its path in the image.
func File(name string, content []byte) Content { return &file{name: name, content: content} }

// Random is a file of so many bytes that no compression makes smaller; the same seed gives the same bytes.
func Random(name string, seed uint64, size int64) Content {
	return &random{name: name, seed: seed, size: size}
}

type file struct {
	name    string
	content []byte
}

func (f *file) identify(w io.Writer) error {
	_, err := fmt.Fprintf(w, "file %q %q\n", f.name, f.content)
	return err
}

func (f *file) write(_ context.Context, w *writer) error {
	return w.file(f.name, 0o755, int64(len(f.content)), bytes.NewReader(f.content))
}

type random struct {
	name string
	seed uint64
	size int64
}

func (r *random) identify(w io.Writer) error {
	_, err := fmt.Fprintf(w, "random %q %d %d\n", r.name, r.seed, r.size)
	return err
}

func (r *random) write(_ context.Context, w *writer) error {
	var seed [32]byte
	for i := range 8 {
		seed[i] = byte(r.seed >> (8 * i))
	}
	return w.file(r.name, 0o644, r.size, rand.NewChaCha8(seed))
}

// writer writes a tar that depends on nothing but names, modes and contents: owners and times are all zero. It adds the
// folders above each entry.
type writer struct {
	tar  *tar.Writer
	made map[string]bool
}

func newWriter(w *tar.Writer) *writer { return &writer{tar: w, made: map[string]bool{".": true}} }

func (w *writer) file(name string, mode, size int64, content io.Reader) error {
	if err := w.header(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size}); err != nil {
		return err
	}
	_, err := io.CopyN(w.tar, content, size)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (w *writer) link(name, target string) error {
	return w.header(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777})
}

func (w *writer) dir(name string) error {
	if w.made[name] {
		return nil
	}
	w.made[name] = true
	return w.header(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
}

func (w *writer) header(h *tar.Header) error {
	name := path.Clean(strings.TrimLeft(h.Name, "/"))
	if err := w.dir(path.Dir(name)); err != nil {
		return err
	}
	h.Name = name
	if h.Typeflag == tar.TypeDir {
		h.Name += "/"
	}
	h.ModTime, h.Format = time.Unix(0, 0), tar.FormatPAX
	return w.tar.WriteHeader(h)
}
