package node

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// Clear takes everything off the Node that we write on it, and says what that is. Without write it only looks. That
// there is no Node is no error: then there is nothing of ours either.
func (r *Reporter) Clear(ctx context.Context, write bool) ([]string, error) {
	o, err := r.client.get(ctx)
	if errors.Is(err, ErrNodeNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	change := labelChanges{}
	for key := range o.labels {
		if ours(key) {
			change[key] = nil
		}
	}
	found := slices.Sorted(maps.Keys(change))
	if !write || len(found) == 0 {
		return found, nil
	}
	_, err = r.client.patch(ctx, labelPatch(objectNode, o.uid, change))
	r.Observer.APIWrite("node", ReasonOf(err).result())
	return found, err
}
