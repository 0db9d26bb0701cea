package cri

import (
	"context"

	"golang.org/x/sys/unix"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Disk is a file system, in bytes.
type Disk struct {
	Path  string `json:"path"`
	Total int64  `json:"total"`
	// Free is what an unprivileged process can still write.
	Free int64 `json:"free"`
}

// imageFS is the folder of CRI's snapshotter, on the file system that the kubelet watches; empty where unknown. The
// first entry is the default snapshotter's (kubelet and containerd agree on that).
func (r *Runtime) imageFS(ctx context.Context) string {
	resp, err := r.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil || len(resp.GetImageFilesystems()) == 0 {
		return ""
	}
	return resp.GetImageFilesystems()[0].GetFsId().GetMountpoint()
}

// disk measures the file system of the images; nil where the runtime does not name it or it cannot be seen from here.
func (r *Runtime) disk(ctx context.Context) *Disk {
	path := r.imageFS(ctx)
	var st unix.Statfs_t
	if path == "" || unix.Statfs(path, &st) != nil {
		return nil
	}
	return &Disk{Path: path, Total: int64(st.Blocks) * st.Bsize, Free: int64(st.Bavail) * st.Bsize} //nolint:gosec // block counts fit
}

// free is how many bytes are free for images while a pull unpacks; unseen where that cannot be seen, or is not wanted.
func (r *Runtime) free(ctx context.Context, p Progress) int64 {
	if p.Phase != PhaseUnpacking {
		return unseen
	}
	if d := r.disk(ctx); d != nil {
		return d.Free
	}
	return unseen
}
