package images

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Store is where images are pushed to: a registry.
type Store interface {
	// PutBlob adds the blob that is in a file.
	PutBlob(d digest.Digest, file string) error
	// PutManifest adds a manifest or index under its digest and under reference, a tag or the digest.
	PutManifest(repository, reference, mediaType string, body []byte) error
	// DeleteManifest removes the manifest with this digest, or the tag.
	DeleteManifest(repository, reference string) error
}

// Push puts the image into a repository under a tag, or under its digest alone where tag is empty.
func (i *Image) Push(s Store, repository, tag string) error {
	errs := []error{s.PutBlob(i.Config.Digest, i.configFile)}
	for _, l := range i.Layers {
		errs = append(errs, s.PutBlob(l.Digest, l.File))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("push %s:%s: %w", repository, tag, err)
	}
	return put(s, repository, tag, i.Descriptor, i.Manifest)
}

// Index is a list of images, mostly one for each platform.
type Index struct {
	// Descriptor is what an index that has this one in it says of it.
	Descriptor ocispec.Descriptor
	// Manifest is the index's bytes.
	Manifest []byte
	// Entries are what it lists.
	Entries []Entry
}

// Entry is one line of an index.
type Entry struct {
	// Image or Index is what it names; exactly one is set.
	Image *Image
	Index *Index
	// Missing leaves what it names out of the registry, manifest and blobs.
	Missing bool
	// Attestation marks the entry as what build tools add for an image's provenance: platform unknown/unknown.
	Attestation bool
	// NoPlatform leaves the platform out.
	NoPlatform bool
}

// NewIndex makes an index, with Docker's media type or OCI's.
func NewIndex(docker bool, entries ...Entry) (*Index, error) {
	x := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	if docker {
		x.MediaType = dockerIndex
	}
	for _, e := range entries {
		x.Manifests = append(x.Manifests, e.descriptor())
	}
	text, err := json.Marshal(x)
	if err != nil {
		return nil, fmt.Errorf("build an index: %w", err)
	}
	return &Index{
		Descriptor: ocispec.Descriptor{MediaType: x.MediaType, Digest: digest.FromBytes(text), Size: int64(len(text))},
		Manifest:   text, Entries: entries,
	}, nil
}

func (e Entry) descriptor() ocispec.Descriptor {
	if e.Index != nil {
		return e.Index.Descriptor
	}
	d := e.Image.Descriptor
	switch {
	case e.NoPlatform:
		d.Platform = nil
	case e.Attestation:
		d.Platform = &ocispec.Platform{OS: "unknown", Architecture: "unknown"}
		d.Annotations = map[string]string{"vnd.docker.reference.type": "attestation-manifest"}
	}
	return d
}

// Push puts the index, and all that it names and that is not to be missing, into a repository.
func (x *Index) Push(s Store, repository, tag string) error {
	var missing []digest.Digest
	for _, e := range x.Entries {
		var err error
		switch {
		case e.Missing:
			// The registry takes no index with a gap: the manifest is removed again.
			d := e.descriptor()
			missing = append(missing, d.Digest)
			err = put(s, repository, "", d, e.body())
		case e.Index != nil:
			err = e.Index.Push(s, repository, "")
		default:
			err = e.Image.Push(s, repository, "")
		}
		if err != nil {
			return err
		}
	}
	if err := put(s, repository, tag, x.Descriptor, x.Manifest); err != nil {
		return err
	}
	for _, d := range missing {
		if err := s.DeleteManifest(repository, d.String()); err != nil {
			return fmt.Errorf("push %s:%s: %w", repository, tag, err)
		}
	}
	return nil
}

func (e Entry) body() []byte {
	if e.Index != nil {
		return e.Index.Manifest
	}
	return e.Image.Manifest
}

// put adds a manifest under its digest and, where there is one, under the tag.
func put(s Store, repository, tag string, d ocispec.Descriptor, body []byte) error {
	reference := tag
	if tag == "" {
		reference = d.Digest.String()
	}
	if err := s.PutManifest(repository, reference, d.MediaType, body); err != nil {
		return fmt.Errorf("push %s:%s: %w", repository, tag, err)
	}
	return nil
}
