package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"

	"golang.org/x/sys/unix"
)

// containerdConfig keeps everything in one folder and leaves out what a test of images does not need or what a machine
// may lack: NRI, AppArmor, CRIU, snapshotters other than overlayfs and native. Each of containerd's two ways to pull has
// its own max_concurrent_downloads, and the one of CRI turns the transfer service off (containerd internal/cri/config,
// CheckLocalImagePullConfigs). The folder of the shims' sockets may have 42 characters, which one in Dir soon exceeds
// (containerd core/runtime/v2, maxSocketDirLen); without runc there are no shims, so it is never made.
const containerdConfig = `version = 4
root = '{{.Dir}}/root'
state = '{{.Dir}}/state'
temp = '{{.Dir}}/tmp'
imports = ['{{.Dir}}/extra.toml']
disabled_plugins = [
  'io.containerd.nri.v1.nri',
  'io.containerd.snapshotter.v1.blockfile',
  'io.containerd.snapshotter.v1.erofs',
  'io.containerd.mount-handler.v1.erofs',
  'io.containerd.differ.v1.erofs',
]

[plugins.'io.containerd.server.v1.grpc']
  address = '{{.Socket}}'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '{{.Socket}}.t'
[plugins.'io.containerd.shim.v1.manager']
  socket_dir = '{{if .Pods}}{{.Dir}}/s{{else}}/run/prewarm-harness{{end}}'
[plugins.'io.containerd.internal.v1.opt']
  path = '{{.Dir}}/opt'
[plugins.'io.containerd.image-verifier.v1.bindir']
  bin_dir = '{{.Dir}}/verifiers'

[plugins.'io.containerd.cri.v1.images']
  snapshotter = '{{.Snapshotter}}'
  discard_unpacked_layers = {{.DiscardUnpackedLayers}}
  use_local_image_pull = {{.LocalPull}}
{{- if and .MaxConcurrentDownloads (or .LocalPull .DiscardUnpackedLayers)}}
  max_concurrent_downloads = {{.MaxConcurrentDownloads}}
{{- end}}
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = '{{.RegistryConfigPath}}'
{{- if .MaxConcurrentDownloads}}
[plugins.'io.containerd.transfer.v1.local']
  max_concurrent_downloads = {{.MaxConcurrentDownloads}}
{{- end}}
[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
  platform = 'linux/{{.Arch}}'
  snapshotter = '{{.Snapshotter}}'

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_criu = false
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = []
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['{{if .Pods}}{{.Bin}}{{else}}{{.Dir}}/cni/bin{{end}}']
  conf_dir = '{{.Dir}}/cni/net.d'
  use_internal_loopback = true
{{- if .Pods}}
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{{.PauseImage}}'
[plugins.'io.containerd.cri.v1.runtime'.containerd]
  default_runtime_name = 'runc'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  runtime_path = '{{.Bin}}/containerd-shim-runc-v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = '{{.Bin}}/runc'
  Root = '{{.Dir}}/runc'
  SystemdCgroup = false
{{- end}}
`

// PauseImage is the name of the image of sandboxes; import one under it.
const PauseImage = "registry.k8s.io/pause:3.10.1"

// podNetwork joins pods to the network namespace of containerd by a pair of virtual interfaces each.
const podNetwork = `{"cniVersion": "1.0.0", "name": "lab", "plugins": [{"type": "ptp", "ipMasq": false,
  "ipam": {"type": "host-local", "dataDir": "%s", "ranges": [[{"subnet": "10.233.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`

// writeConfig writes the configuration of containerd and of crictl.
func (c *Containerd) writeConfig(o ContainerdOptions) error {
	tmpl, err := template.New("config").Parse(containerdConfig)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	bin := ""
	if o.Pods {
		shim, err := Binary("containerd-shim-runc-v2")
		if err != nil {
			return err
		}
		bin = filepath.Dir(shim)
		network := fmt.Sprintf(podNetwork, filepath.Join(c.Dir, "cni", "ipam"))
		if err := writeFile(filepath.Join(c.Dir, "cni", "net.d", "10-lab.conflist"), []byte(network)); err != nil {
			return err
		}
	}
	var text strings.Builder
	if err := tmpl.Execute(&text, struct {
		ContainerdOptions

		Dir, Socket, Snapshotter, Arch, Bin, PauseImage string
	}{o, c.Dir, c.Socket(), c.Snapshotter, runtime.GOARCH, bin, PauseImage}); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	for name, content := range map[string]string{
		c.configFile():                        text.String(),
		filepath.Join(c.Dir, "extra.toml"):    "version = 4\n" + o.ExtraConfig,
		c.CrictlConfig():                      "timeout: 10\n",
		filepath.Join(c.Dir, "tmp", ".keep"):  "",
		filepath.Join(c.Dir, "root", ".keep"): "",
	} {
		if err := writeFile(name, []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

// CrictlConfig is a configuration for crictl, which otherwise reads the machine's.
func (c *Containerd) CrictlConfig() string { return filepath.Join(c.Dir, "crictl.yaml") }

func (c *Containerd) configFile() string { return filepath.Join(c.Dir, "config.toml") }

// snapshotterFor is overlayfs, except on an overlay, as in a container, where overlayfs cannot have its upper folders.
func snapshotterFor(dir string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native"
	}
	return "overlayfs"
}

// writeFile writes a file and makes the folders above it.
func writeFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o644)
}
