// Package critest has a CRI runtime for tests, a real gRPC server on a real socket, and the conformance suite that it
// and the real runtimes pass, so that the fake cannot lie.
package critest

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/prewarm-dev/prewarm/cri"
)

// Fake is a runtime that has CRI and nothing more, as CRI-O. Its registry is what Offer was told.
type Fake struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	// Socket is the endpoint, as unix:///path.
	Socket string

	mu      sync.Mutex
	offered map[string]cri.Image
	present map[string]cri.Image
	calls   []string
	errs    map[string][]error
	blocked map[string]chan struct{}
	fsPath  string
}

// Start serves a fake on a socket of its own until the test ends.
func Start(t testing.TB) *Fake {
	t.Helper()
	f := &Fake{
		offered: map[string]cri.Image{}, present: map[string]cri.Image{},
		errs: map[string][]error{}, blocked: map[string]chan struct{}{}, fsPath: t.TempDir(),
	}
	path := filepath.Join(t.TempDir(), "cri.sock")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	f.Socket = "unix://" + path
	s := grpc.NewServer(grpc.UnaryInterceptor(f.record))
	runtimeapi.RegisterRuntimeServiceServer(s, f)
	runtimeapi.RegisterImageServiceServer(s, f)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Errorf("fake runtime: %v", err)
		}
	})
	return f
}

// Offer puts an image into the registry that the fake pulls from.
func (f *Fake) Offer(img cri.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.offered[img.Reference.Canonical()] = img
}

// Put puts an image into the runtime behind everybody's back.
func (f *Fake) Put(img cri.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.present[img.Reference.Canonical()] = img
}

// Remove takes an image out of the runtime behind everybody's back.
func (f *Fake) Remove(ref cri.Reference) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.present, ref.Canonical())
}

// Fail lets the next calls of a method, such as "PullImage", end in these errors, one each.
func (f *Fake) Fail(method string, errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs[method] = append(f.errs[method], errs...)
}

// Block lets calls of a method wait until the returned function is called or the caller gives up.
func (f *Fake) Block(method string) (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan struct{})
	f.blocked[method] = c
	return sync.OnceFunc(func() {
		f.mu.Lock()
		delete(f.blocked, method)
		f.mu.Unlock()
		close(c)
	})
}

// Calls are the methods called so far, in order.
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *Fake) record(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := filepath.Base(info.FullMethod)
	f.mu.Lock()
	f.calls = append(f.calls, method)
	var err error
	if errs := f.errs[method]; len(errs) > 0 {
		err, f.errs[method] = errs[0], errs[1:]
	}
	wait := f.blocked[method]
	f.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	if err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// Version implements the CRI runtime service.
func (f *Fake) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "fake", RuntimeVersion: "1.0", RuntimeApiVersion: "v1"}, nil
}

// ImageFsInfo implements the CRI image service.
func (f *Fake) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: f.fsPath}},
	}}, nil
}

// ImageStatus implements the CRI image service.
func (f *Fake) ImageStatus(_ context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	img, ok := f.present[r.GetImage().GetImage()]
	if !ok {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{
		Id: img.Config.String(), RepoTags: []string{img.Reference.String()},
		RepoDigests: []string{img.Reference.Repository() + "@" + img.Digest.String()},
	}}, nil
}

// PullImage implements the CRI image service.
func (f *Fake) PullImage(_ context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	img, ok := f.offered[r.GetImage().GetImage()]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "failed to resolve reference %q: not found", r.GetImage().GetImage())
	}
	f.present[img.Reference.Canonical()] = img
	return &runtimeapi.PullImageResponse{ImageRef: img.Config.String()}, nil
}
