package images_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/prewarm-dev/prewarm/integration/images"
)

// store keeps what is pushed. As a registry does, it takes no index that names what it does not have.
type store struct {
	blobs map[digest.Digest][]byte
	// manifests are the bodies by repository:reference, and types their media types.
	manifests map[string][]byte
	types     map[string]string
	err       error
}

func newStore() *store {
	return &store{blobs: map[digest.Digest][]byte{}, manifests: map[string][]byte{}, types: map[string]string{}}
}

func (s *store) PutBlob(d digest.Digest, file string) (err error) {
	s.blobs[d], err = os.ReadFile(file)
	return errors.Join(err, s.err)
}

func (s *store) PutManifest(repository, reference, mediaType string, body []byte) error {
	var index ocispec.Index
	if err := json.Unmarshal(body, &index); err != nil {
		return err
	}
	for _, d := range index.Manifests {
		if s.manifests[repository+":"+d.Digest.String()] == nil {
			return fmt.Errorf("%s is not there", d.Digest)
		}
	}
	for _, r := range []string{reference, digest.FromBytes(body).String()} {
		s.manifests[repository+":"+r], s.types[repository+":"+r] = body, mediaType
	}
	return nil
}

func (s *store) DeleteManifest(repository, reference string) error {
	delete(s.manifests, repository+":"+reference)
	return nil
}

// TestIndex pushes an index with one of everything and holds what it says of each, and what is in the registry afterwards.
func TestIndex(t *testing.T) {
	dir := t.TempDir()
	one := func(name string) *images.Image {
		return build(t, dir, images.Spec{
			Layers: []images.LayerSpec{layer(name, "")}, Platform: ocispec.Platform{OS: "linux", Architecture: name},
		})
	}
	amd, arm, gone, proof, bare := one("amd64"), one("arm64"), one("gone"), one("proof"), one("bare")
	inner, err := images.NewIndex(true, images.Entry{Image: arm})
	if err != nil {
		t.Fatal(err)
	}
	for name, docker := range map[string]bool{"oci": false, "docker": true} {
		t.Run(name, func(t *testing.T) {
			x, err := images.NewIndex(docker, images.Entry{Image: amd}, images.Entry{Index: inner},
				images.Entry{Image: gone, Missing: true}, images.Entry{Image: proof, Attestation: true}, images.Entry{Image: bare, NoPlatform: true})
			if err != nil {
				t.Fatal(err)
			}
			s := newStore()
			if err := x.Push(s, "lab/x", "1"); err != nil {
				t.Fatal(err)
			}
			mediaType := map[bool]string{false: ocispec.MediaTypeImageIndex, true: "application/vnd.docker.distribution.manifest.list.v2+json"}
			var got ocispec.Index
			unmarshal(t, s.manifests["lab/x:1"], &got)
			if s.types["lab/x:1"] != mediaType[docker] || got.MediaType != mediaType[docker] || x.Descriptor.MediaType != mediaType[docker] {
				t.Errorf("media types %s, %s and %s, want %s", s.types["lab/x:1"], got.MediaType, x.Descriptor.MediaType, mediaType[docker])
			}
			var said, there []string
			for _, d := range got.Manifests {
				p := "-"
				if d.Platform != nil {
					p = d.Platform.OS + "/" + d.Platform.Architecture
				}
				said = append(said, p+" "+d.Annotations["vnd.docker.reference.type"])
				there = append(there, fmt.Sprint(s.manifests["lab/x:"+d.Digest.String()] != nil))
			}
			if diff := cmp.Diff([]string{"linux/amd64 ", "- ", "linux/gone ", "unknown/unknown attestation-manifest", "- "}, said); diff != "" {
				t.Errorf("entries:\n%s", diff)
			}
			if diff := cmp.Diff([]string{"true", "true", "false", "true", "true"}, there); diff != "" {
				t.Errorf("manifests in the registry:\n%s", diff)
			}
			for _, img := range []*images.Image{amd, arm, gone, proof, bare} {
				if pushed := s.blobs[img.Layers[0].Digest] != nil; pushed == (img == gone) {
					t.Errorf("layers of %s are in the registry: %v", img.Descriptor.Platform.Architecture, pushed)
				}
			}
			if s.manifests["lab/x:"+arm.Descriptor.Digest.String()] == nil {
				t.Error("what the nested index names is not there")
			}
		})
	}
}

// TestPush holds under which names an image is found, and that a registry's refusal is told with the image's name.
func TestPush(t *testing.T) {
	img := build(t, t.TempDir(), images.Spec{Layers: []images.LayerSpec{layer("a", "")}})
	byDigest := "lab/x:" + img.Descriptor.Digest.String()
	for tag, want := range map[string]map[string][]byte{
		"1": {"lab/x:1": img.Manifest, byDigest: img.Manifest},
		"":  {byDigest: img.Manifest},
	} {
		s := newStore()
		if err := img.Push(s, "lab/x", tag); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.manifests); diff != "" {
			t.Errorf("pushed as %q:\n%s", tag, diff)
		}
	}
	s := newStore()
	s.err = errors.New("no space")
	if err := img.Push(s, "lab/x", "1"); !errors.Is(err, s.err) || !strings.Contains(err.Error(), "lab/x:1") {
		t.Errorf("%v, want %v with the name", err, s.err)
	}
}
