package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	containerdTimeout = 30 * time.Second
	// maxSocket is how long the path of a socket may be: sun_path has 108 bytes, and containerd appends to it.
	maxSocket = 96
)

// ContainerdOptions are the settings of a containerd that tests differ in; the zero value is what a plain node has.
type ContainerdOptions struct {
	// DiscardUnpackedLayers removes blobs once they are unpacked, as EKS has it. containerd then pulls in its local
	// mode instead of the transfer service.
	DiscardUnpackedLayers bool
	// LocalPull pulls in the local mode also where blobs are kept.
	LocalPull bool
	// RegistryConfigPath is a certs.d folder with hosts.toml files; empty for none.
	RegistryConfigPath string
	// MaxConcurrentDownloads is how many layers are fetched at once; 0 for containerd's default, 3.
	MaxConcurrentDownloads int
	// Snapshotter is CRI's snapshotter; empty for overlayfs, or native where the folder lies on an overlay itself.
	Snapshotter string
	// Pods lets it run pods, with runc and a network of their own. Then it shares the mounts of who starts it, as the kubelet does;
	// do so in namespaces that are made for it.
	Pods bool
	// ExtraConfig is TOML that is merged over the configuration, without its version line.
	ExtraConfig string
}

// Containerd is a private containerd with its CRI plugin: no network for pods and no runc, which images do not need.
// It has a mount namespace of its own, so mounts made after its start are not seen by it, nor its mounts by others.
type Containerd struct {
	// Dir is its folder: configuration, log, root and state.
	Dir string
	// Snapshotter is the one that CRI uses.
	Snapshotter string

	pods bool
	proc *process
}

// StartContainerd starts a containerd in dir, an absolute path that is short enough for a socket, and waits until its
// CRI answers.
func StartContainerd(ctx context.Context, dir string, o ContainerdOptions) (*Containerd, error) {
	c := &Containerd{Dir: dir, Snapshotter: o.Snapshotter, pods: o.Pods}
	if !filepath.IsAbs(dir) || len(c.Socket()) > maxSocket {
		return nil, fmt.Errorf("containerd: %s must be an absolute path of at most %d characters", dir, maxSocket-len(c.Socket())+len(dir))
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("containerd: %w", err)
	}
	if c.Snapshotter == "" {
		c.Snapshotter = snapshotterFor(dir)
	}
	if err := c.writeConfig(o); err != nil {
		return nil, fmt.Errorf("containerd: %w", err)
	}
	if err := c.start(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// NewContainerd starts a containerd for a test.
func NewContainerd(t T, o ContainerdOptions) *Containerd {
	t.Helper()
	c, err := StartContainerd(t.Context(), Dir(t), o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	atEnd(t, "containerd", c.Log(), c.Stop)
	return c
}

// Socket is the absolute path of the socket on which both CRI and containerd's own API are served.
func (c *Containerd) Socket() string { return filepath.Join(c.Dir, "c.sock") }

// Endpoint is the socket as CRI clients want it, with its scheme.
func (c *Containerd) Endpoint() string { return "unix://" + c.Socket() }

// Root is the folder with all that containerd keeps over a restart: content, snapshots, metadata.
func (c *Containerd) Root() string { return filepath.Join(c.Dir, "root") }

// Log is the file with what containerd has logged since its first start.
func (c *Containerd) Log() string { return filepath.Join(c.Dir, "containerd.log") }

// PID is the process ID of the present process.
func (c *Containerd) PID() int { return c.proc.pid }

// Stop ends containerd in good order. It may be called again, and after Kill.
func (c *Containerd) Stop() error { return c.proc.stop() }

// Kill ends containerd at once, as a crash does.
func (c *Containerd) Kill() { c.proc.kill() }

// Restart stops containerd where it still runs and starts it on the same folders and the same socket.
func (c *Containerd) Restart(ctx context.Context) error {
	if err := c.Stop(); err != nil {
		return err
	}
	return c.start(ctx)
}

func (c *Containerd) start(ctx context.Context) (err error) {
	c.proc, err = command{
		name: "containerd", args: []string{"-c", c.configFile()}, log: c.Log(), ownMounts: !c.pods,
	}.start(ctx, containerdTimeout, c.answers)
	return err
}

// answers asks both services of CRI something that they know only once they work.
func (c *Containerd) answers(ctx context.Context) (err error) {
	conn, err := grpc.NewClient(c.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := runtimeapi.NewRuntimeServiceClient(conn).Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
		return err
	}
	_, err = runtimeapi.NewImageServiceClient(conn).ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	return err
}

// Crictl runs crictl on this containerd and gives what it printed to stdout.
func (c *Containerd) Crictl(ctx context.Context, args ...string) (string, error) {
	return tool(ctx, "crictl", append([]string{
		"--config", c.CrictlConfig(), "--runtime-endpoint", c.Endpoint(), "--image-endpoint", c.Endpoint(),
	}, args...))
}

// Ctr runs ctr on this containerd, in CRI's namespace, and gives what it printed to stdout.
func (c *Containerd) Ctr(ctx context.Context, args ...string) (string, error) {
	return tool(ctx, "ctr", append([]string{"--address", c.Socket(), "--namespace", "k8s.io"}, args...))
}

// tool runs a program to its end. The error has what it printed to stderr.
func tool(ctx context.Context, name string, args []string) (string, error) {
	path, err := Binary(name)
	if err != nil {
		return "", err
	}
	return run(ctx, "", nil, path, args...)
}

// Run runs a program to its end and gives what it printed to stdout; the error has what it printed to stderr.
func Run(ctx context.Context, path string, args ...string) (string, error) {
	return run(ctx, "", nil, path, args...)
}

// run runs a program in a folder (empty: this one), with more in its environment.
func run(ctx context.Context, dir string, env []string, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", filepath.Base(path), strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
