package cri

import (
	"github.com/opencontainers/go-digest"
)

// Layer is one layer of an image, in manifest order.
type Layer struct {
	// Digest names the blob as it is sent over the wire, Size is that blob's size in bytes.
	Digest    digest.Digest `json:"digest"`
	Size      int64         `json:"size"`
	MediaType string        `json:"mediaType"`
	// ChainID names the layer on top of those below it: the name of its snapshot.
	ChainID digest.Digest `json:"chainID"`
	// ingestRef is the name that containerd gives to the download of this blob.
	ingestRef string
}

// Image is a reference that has been resolved for this node's platform.
type Image struct {
	Reference Reference `json:"reference"`
	// Digest is what the reference means: of the index where there is one, else of the manifest.
	Digest digest.Digest `json:"digest"`
	// Config is the digest of the image configuration; CRI calls it the image ID.
	Config digest.Digest `json:"config"`
	// Platform is that of the manifest that was chosen, such as linux/amd64.
	Platform string  `json:"platform"`
	Layers   []Layer `json:"layers"`
}

// Size is the compressed size of all distinct layers, in bytes.
func (i Image) Size() int64 {
	var n int64
	seen := map[digest.Digest]bool{}
	for _, l := range i.Layers {
		if !seen[l.Digest] {
			seen[l.Digest] = true
			n += l.Size
		}
	}
	return n
}
