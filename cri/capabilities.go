package cri

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	defaultSnapshotter = "overlayfs"
	// defaultRegistryConfigPath is containerd's (plugins/cri/images), which is also what EKS nodes have.
	defaultRegistryConfigPath = "/etc/containerd/certs.d:/etc/docker/certs.d"
)

// discover learns what the runtime can do. Where it is not containerd, all that CRI offers is used and nothing more.
func (r *Runtime) discover(ctx context.Context) error {
	r.info.Detail = DetailUnavailable
	if r.info.Name != "containerd" {
		r.log.InfoContext(ctx, "runtime has no native API that we know: pulls show no layers", "runtime", r.info.Name)
		r.info.RegistryConfigPath = firstSet(r.info.RegistryConfigPath, defaultRegistryConfigPath)
		return nil
	}
	native, err := containerd.NewWithConn(r.conns[0])
	if err != nil {
		return fmt.Errorf("containerd's native API at %s: %w", r.info.Endpoint, err)
	}
	if _, err := native.IntrospectionService().Server(inNamespace(ctx)); err != nil {
		return &Error{
			Reason: ReasonRuntimeUnsupported, Noun: "containerd at " + r.info.Endpoint, Err: err,
			Remedy: "the socket serves CRI but not containerd's native API: name containerd's own socket with --runtime-endpoint, and the other one with --image-endpoint",
		}
	}
	r.native = native
	r.info.Detail = DetailLayers
	return r.readConfiguration(ctx)
}

// readConfiguration finds the snapshotter, the discard policy and the registry configuration of containerd's CRI.
//
// containerd 1.7 tells them in the verbose CRI status. From 2.0 on they belong to the image plugin: newer versions
// export what we need, and the snapshotter is the one whose root folder CRI calls the image file system.
func (r *Runtime) readConfiguration(ctx context.Context) error {
	status, err := r.runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return fmt.Errorf("status of the runtime at %s: %w", r.info.Endpoint, err)
	}
	c := parseStatusConfig(status.GetInfo()["config"])
	exports, roots, err := r.plugins(ctx)
	if err != nil {
		return err
	}
	snapshotter := c.Containerd.Snapshotter
	if snapshotter == "" {
		snapshotter = snapshotterOf(r.imageFS(ctx), roots)
	}
	r.info.Snapshotter = snapshotter
	r.info.DiscardsLayers = c.Containerd.DiscardUnpackedLayers || exports["DiscardUnpackedLayers"] == "true"
	r.info.RegistryConfigPath = firstSet(r.info.RegistryConfigPath, exports["RegistryConfigPath"], c.Registry.ConfigPath, defaultRegistryConfigPath)
	return nil
}

// statusConfig is what we read of the "config" of containerd 1.7's verbose status.
type statusConfig struct {
	Containerd struct {
		Snapshotter           string `json:"snapshotter"`
		DiscardUnpackedLayers bool   `json:"discardUnpackedLayers"`
	} `json:"containerd"`
	Registry struct {
		ConfigPath string `json:"configPath"`
	} `json:"registry"`
}

// parseStatusConfig reads what is there; the format is nobody's promise, so what does not parse counts as absent.
func parseStatusConfig(config string) statusConfig {
	var c statusConfig
	if json.Unmarshal([]byte(config), &c) != nil {
		return statusConfig{}
	}
	return c
}

// plugins gives the exports of CRI's image plugin and the root folder of every snapshotter.
func (r *Runtime) plugins(ctx context.Context) (exports, roots map[string]string, err error) {
	resp, err := r.native.IntrospectionService().Plugins(inNamespace(ctx),
		"type==io.containerd.cri.v1,id==images", "type==io.containerd.snapshotter.v1")
	if err != nil {
		return nil, nil, fmt.Errorf("plugins of containerd at %s: %w", r.info.Endpoint, err)
	}
	roots = map[string]string{}
	for _, p := range resp.GetPlugins() {
		if p.GetType() == "io.containerd.cri.v1" {
			exports = p.GetExports()
		} else if root := p.GetExports()["root"]; root != "" {
			roots[p.GetID()] = root
		}
	}
	return exports, roots, nil
}

// snapshotterOf finds the snapshotter whose root folder is imageFS; its name is also part of the default folder's name.
func snapshotterOf(imageFS string, roots map[string]string) string {
	for name, root := range roots {
		if imageFS != "" && filepath.Clean(root) == filepath.Clean(imageFS) {
			return name
		}
	}
	if _, name, ok := strings.Cut(filepath.Base(imageFS), "io.containerd.snapshotter.v1."); ok {
		return name
	}
	return defaultSnapshotter
}
