package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// EnvRuntimeEndpoint names the runtime's socket in the environment, as for crictl.
	EnvRuntimeEndpoint = "CONTAINER_RUNTIME_ENDPOINT"
	// EnvImageEndpoint names the image service's socket, where it is another one.
	EnvImageEndpoint = "IMAGE_SERVICE_ENDPOINT"

	// maxMessage is the largest gRPC message that we take, in bytes: verbose answers exceed gRPC's 4 MiB, and crictl
	// takes as much.
	maxMessage = 16 << 20
	// namespace is the one in which containerd's CRI keeps everything.
	namespace = "k8s.io"
	// dialTimeout bounds the first answer of a socket.
	dialTimeout = 5 * time.Second
)

// WellKnownEndpoints are the sockets that are tried when none is named, in this order
// (kubernetes.io/docs/setup/production-environment/container-runtimes).
func WellKnownEndpoints() []string {
	return []string{
		"unix:///run/containerd/containerd.sock",
		"unix:///run/crio/crio.sock",
		"unix:///var/run/cri-dockerd.sock",
	}
}

// Runtime is a connection to a container runtime. Its methods may be called from several goroutines.
type Runtime struct {
	info    Info
	log     *slog.Logger
	conns   []*grpc.ClientConn
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	// native is containerd's own API; nil where the runtime is not containerd.
	native *containerd.Client
	// lock is the open folder that is locked; nil while none is.
	lock *os.File
}

// Connect finds the runtime's sockets, connects, and learns what the runtime can do. The error names every socket that
// was tried and what each said.
func Connect(ctx context.Context, o Options) (*Runtime, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	endpoint, conn, version, err := connectFirst(ctx, candidates(o.RuntimeEndpoint, os.Getenv(EnvRuntimeEndpoint)))
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		log:     o.Logger,
		conns:   []*grpc.ClientConn{conn},
		runtime: runtimeapi.NewRuntimeServiceClient(conn),
		images:  runtimeapi.NewImageServiceClient(conn),
		info: Info{
			Name: version.GetRuntimeName(), Version: version.GetRuntimeVersion(),
			Endpoint: endpoint, ImageEndpoint: endpoint, RegistryConfigPath: o.RegistryConfigPath,
		},
	}
	if image := firstSet(o.ImageEndpoint, os.Getenv(EnvImageEndpoint)); image != "" && address(image) != address(endpoint) {
		if err := r.useImageEndpoint(ctx, image); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	if err := r.discover(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Close ends the connection.
func (r *Runtime) Close() error {
	errs := []error{r.unlock()}
	for _, c := range r.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Info is what the runtime is and can do.
func (r *Runtime) Info() Info { return r.info }

// useImageEndpoint sends image calls to a socket of their own; it must answer as an image service.
func (r *Runtime) useImageEndpoint(ctx context.Context, endpoint string) error {
	conn, err := dial(ctx, endpoint)
	if err != nil {
		return err
	}
	r.conns = append(r.conns, conn)
	r.images = runtimeapi.NewImageServiceClient(conn)
	r.info.ImageEndpoint = "unix://" + address(endpoint)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := r.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{}); err != nil {
		return notCRI(ctx, endpoint, "image service", err)
	}
	return nil
}

// candidates gives the endpoints to try: the first of the named ones that is set, else the well-known ones.
func candidates(named ...string) []string {
	if e := firstSet(named...); e != "" {
		return []string{e}
	}
	return WellKnownEndpoints()
}

func firstSet(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// connectFirst connects to the first endpoint that answers as a CRI runtime.
func connectFirst(ctx context.Context, endpoints []string) (string, *grpc.ClientConn, *runtimeapi.VersionResponse, error) {
	var errs []error
	for _, e := range endpoints {
		conn, err := dial(ctx, e)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		vctx, cancel := context.WithTimeout(ctx, dialTimeout)
		version, err := runtimeapi.NewRuntimeServiceClient(conn).Version(vctx, &runtimeapi.VersionRequest{})
		cancel()
		if err == nil {
			return "unix://" + address(e), conn, version, nil
		}
		errs = append(errs, errors.Join(notCRI(ctx, e, "runtime", err), conn.Close()))
	}
	if len(errs) == 1 {
		return "", nil, nil, errs[0]
	}
	return "", nil, nil, &Error{
		Reason: ReasonRuntimeUnavailable, Noun: "container runtime", Err: errors.Join(errs...),
		Remedy: "name the socket with --runtime-endpoint or " + EnvRuntimeEndpoint,
	}
}

// dial opens a socket once by hand, for an error that says what is wrong with it, and then hands it to gRPC, which
// opens it again whenever the runtime restarts.
func dial(ctx context.Context, endpoint string) (*grpc.ClientConn, error) {
	path := address(endpoint)
	if !strings.HasPrefix(path, "/") {
		return nil, &Error{
			Reason: ReasonRuntimeUnavailable, Noun: fmt.Sprintf("endpoint %q", endpoint),
			Err: errors.New("is not an absolute path of a socket"), Remedy: "write it as unix:///run/containerd/containerd.sock",
		}
	}
	d := net.Dialer{Timeout: dialTimeout}
	probe, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, socketError(path, err)
	}
	if err := probe.Close(); err != nil {
		return nil, socketError(path, err)
	}
	retry := backoff.DefaultConfig
	retry.BaseDelay, retry.MaxDelay = 100*time.Millisecond, 2*time.Second
	// gRPC would take a path for a part of a URL, in which some characters mean something.
	open := func(ctx context.Context, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) }
	conn, err := grpc.NewClient("passthrough:///localhost", grpc.WithContextDialer(open),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: dialTimeout}),
		grpc.WithChainUnaryInterceptor(bounded(callTimeout)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, socketError(path, err)
	}
	return conn, nil
}

// address is the path of an endpoint.
func address(endpoint string) string { return strings.TrimPrefix(endpoint, "unix://") }

func socketError(path string, err error) error {
	e := &Error{Reason: ReasonRuntimeUnavailable, Noun: "socket " + path, Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Remedy = "is the container runtime running, and is its socket's folder mounted here?"
	case errors.Is(err, fs.ErrPermission):
		e.Reason, e.Remedy = ReasonPermissionDenied, "run as root, or as a user that may write to the socket"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Remedy = "nothing listens there: is the container runtime running?"
	}
	return e
}

// notCRI tells a socket that answers in another language from a runtime that is not there.
func notCRI(ctx context.Context, endpoint, service string, err error) error {
	e := &Error{Reason: ReasonRuntimeUnavailable, Noun: "socket " + address(endpoint), Err: err}
	// gRPC words the end of its patience with one that says nothing, as a runtime that hangs, like an answer that it does
	// not understand.
	if status.Code(err) == codes.DeadlineExceeded || strings.Contains(err.Error(), "use of closed network connection") {
		e.Remedy = fmt.Sprintf("it takes connections and did not answer within %v: is the container runtime overloaded, or does it hang?", dialTimeout)
		return e
	}
	if c := status.Code(err); c == codes.Unimplemented || c == codes.Internal || c == codes.Unavailable && speaksOther(ctx, address(endpoint)) {
		e.Reason = ReasonRuntimeUnsupported
		e.Remedy = fmt.Sprintf("it answers, but not as a CRI %s (runtime.v1): name the socket of the runtime that the kubelet uses", service)
	}
	return e
}

// inNamespace addresses containerd's native API.
func inNamespace(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, namespace)
}
