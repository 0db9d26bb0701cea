package cri

import (
	"context"

	"github.com/opencontainers/go-digest"
)

// UnpackFactor is how many bytes a compressed byte becomes on disk where nothing better is known: 2.8 fits images of
// scientific Python, which are between 2.5 and 3.5.
const UnpackFactor = 2.8

// PlannedLayer is a layer and what of it is already here.
type PlannedLayer struct {
	Layer
	// Present is how many of Size bytes need no fetching.
	Present int64      `json:"present"`
	State   LayerState `json:"state"`
}

// ImagePlan is what a pull of one image would do.
type ImagePlan struct {
	Image  Image          `json:"image"`
	Layers []PlannedLayer `json:"layers"`
	// Fetch is how many bytes would be fetched; a layer that an image before it in the plan fetches is not counted again.
	Fetch int64 `json:"fetch"`
	// Unpack estimates how many bytes unpacking would write; see UnpackFactor.
	Unpack int64 `json:"unpackEstimate"`
}

// Plan is what pulls of some images, in this order, would do. All sizes are in bytes.
type Plan struct {
	Images []ImagePlan `json:"images"`
	Fetch  int64       `json:"fetch"`
	Unpack int64       `json:"unpackEstimate"`
	// Disk is the file system of the images now; nil where the runtime does not tell or it cannot be seen from here.
	Disk *Disk `json:"disk,omitempty"`
	// Detail is DetailUnavailable where the runtime does not tell which layers it has: then all count as missing unless
	// the image is present.
	Detail Detail `json:"progress"`
}

// Plan tells what pulls of the images, in this order, would fetch and unpack, without doing it.
func (r *Runtime) Plan(ctx context.Context, images ...Image) (Plan, error) {
	plan := Plan{Disk: r.disk(ctx), Detail: r.info.Detail, Images: []ImagePlan{}}
	fetched := map[digest.Digest]bool{}
	unpacked := map[digest.Digest]bool{}
	for _, img := range images {
		seen, err := r.presence(ctx, img)
		if err != nil {
			return Plan{}, err
		}
		p := ImagePlan{Image: img, Layers: []PlannedLayer{}}
		for i, l := range img.Layers {
			s := seen[i]
			p.Layers = append(p.Layers, PlannedLayer{Layer: l, Present: s.here, State: s.state})
			if s.state == LayerDone || unpacked[l.ChainID] {
				continue
			}
			unpacked[l.ChainID] = true
			p.Unpack += int64(float64(l.Size) * UnpackFactor)
			if !fetched[l.Digest] {
				fetched[l.Digest] = true
				p.Fetch += l.Size - s.here
			}
		}
		plan.Images = append(plan.Images, p)
		plan.Fetch += p.Fetch
		plan.Unpack += p.Unpack
	}
	return plan, nil
}

// presence looks at an image while no pull of ours runs.
func (r *Runtime) presence(ctx context.Context, img Image) ([]sight, error) {
	if r.native != nil {
		return r.look(ctx, img, nil, false)
	}
	seen := make([]sight, len(img.Layers))
	_, err := r.Verify(ctx, img)
	for i, l := range img.Layers {
		seen[i] = sight{state: LayerWaiting}
		if err == nil {
			seen[i] = sight{here: l.Size, state: LayerDone}
		}
	}
	return seen, nil
}
