package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// InUse tells which image IDs a container of the runtime was started from, running or not: those are not to be removed.
func (r *Runtime) InUse(ctx context.Context) (map[string]bool, error) {
	resp, err := r.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, r.runtimeError("containers", err)
	}
	used := map[string]bool{}
	for _, c := range resp.GetContainers() {
		for _, id := range []string{c.GetImageId(), c.GetImageRef(), c.GetImage().GetImage()} {
			used[id] = true
		}
	}
	return used, nil
}

// Remove removes an image with all its names, unless a container uses it, which is an error. An image that is not there
// is none.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	if !strings.HasPrefix(id, "sha256:") {
		return fmt.Errorf("%s is not an image ID", id)
	}
	used, err := r.InUse(ctx)
	if err != nil {
		return err
	}
	if used[id] {
		return &Error{Reason: ReasonInUse, Noun: id, Err: errors.New("a container was started from it"), Remedy: "it stays until the container is gone"}
	}
	if _, err := r.images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}}); err != nil {
		return r.runtimeError(id, err)
	}
	return nil
}
