package cri

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// sight is what can be seen of one layer.
type sight struct {
	// here is how many of the layer's bytes need no fetching, state what that means.
	here  int64
	state LayerState
}

// look finds out where every layer of an image stands; known is what was seen before (nil: nothing).
//
// A layer whose chain ID is committed is done, whether or not its blob is there: a runtime that discards unpacked layers
// has only the snapshot. Snapshots have parents, so the done layers are always the lowest ones, and only the first
// that is not done has to be asked for. Bytes come from the runtime's list of downloads. It puts all layers there at once
// and runs a few at a time, so a layer of which no byte has come waits. Of the stored layers the lowest that is not done
// is being unpacked while a pull runs: the runtime unpacks in order, and begins as soon as the blob is there.
func (r *Runtime) look(ctx context.Context, img Image, known []sight, pulling bool) ([]sight, error) {
	ctx = inNamespace(ctx)
	seen := make([]sight, len(img.Layers))
	done, err := r.committed(ctx, img, known)
	if err != nil {
		return nil, err
	}
	for i := range done {
		seen[i] = sight{here: img.Layers[i].Size, state: LayerDone}
	}
	downloads, err := r.downloads(ctx, img.Layers[done:])
	if err != nil {
		return nil, err
	}
	for i := done; i < len(img.Layers); i++ {
		l := img.Layers[i]
		offset, running := downloads[l.Digest]
		switch {
		case running && offset == 0:
			seen[i] = sight{state: LayerWaiting}
		case running:
			seen[i] = sight{here: min(offset, l.Size), state: LayerFetching}
		case known != nil && !known[i].state.Before(LayerFetched):
			seen[i] = sight{here: l.Size, state: LayerFetched}
		default:
			if seen[i], err = r.stored(ctx, l); err != nil {
				return nil, err
			}
		}
	}
	if pulling && done < len(seen) && seen[done].state == LayerFetched {
		seen[done].state = LayerUnpacking
	}
	return seen, nil
}

// committed counts the layers whose chain ID is committed in the snapshotter, from the lowest up.
func (r *Runtime) committed(ctx context.Context, img Image, known []sight) (int, error) {
	snapshots := r.native.SnapshotService(r.info.Snapshotter)
	n := 0
	for known != nil && n < len(known) && known[n].state == LayerDone {
		n++
	}
	for ; n < len(img.Layers); n++ {
		_, err := snapshots.Stat(ctx, img.Layers[n].ChainID.String())
		if errdefs.IsNotFound(err) {
			return n, nil
		} else if err != nil {
			return 0, r.runtimeError(img.Reference.String(), err)
		}
	}
	return n, nil
}

// downloads gives the offset of every running or interrupted download of the layers.
func (r *Runtime) downloads(ctx context.Context, layers []Layer) (map[digest.Digest]int64, error) {
	if len(layers) == 0 {
		return nil, nil
	}
	filters := make([]string, 0, len(layers))
	byRef := make(map[string]digest.Digest, len(layers))
	for _, l := range layers {
		if _, ok := byRef[l.ingestRef]; !ok {
			filters = append(filters, fmt.Sprintf("ref==%q", l.ingestRef))
			byRef[l.ingestRef] = l.Digest
		}
	}
	statuses, err := r.native.ContentStore().ListStatuses(ctx, filters...)
	if err != nil {
		return nil, r.runtimeError("downloads", err)
	}
	offsets := make(map[digest.Digest]int64, len(statuses))
	for _, s := range statuses {
		offsets[byRef[s.Ref]] = s.Offset
	}
	return offsets, nil
}

// stored tells whether the blob of a layer that is not being downloaded is in the content store.
func (r *Runtime) stored(ctx context.Context, l Layer) (sight, error) {
	info, err := r.native.ContentStore().Info(ctx, l.Digest)
	switch {
	case errdefs.IsNotFound(err):
		return sight{state: LayerWaiting}, nil
	case err != nil:
		return sight{}, r.runtimeError(l.Digest.String(), err)
	default:
		return sight{here: min(info.Size, l.Size), state: LayerFetched}, nil
	}
}
