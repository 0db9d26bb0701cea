package cri

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/opencontainers/go-digest"
)

// Options says which runtime to connect to, and how.
type Options struct {
	// RuntimeEndpoint is the CRI socket, as unix:///path or /path. Empty: the environment (CONTAINER_RUNTIME_ENDPOINT),
	// else the well-known sockets, in the order in which the kubelet's documentation lists them.
	RuntimeEndpoint string
	// ImageEndpoint is the socket of the image service where it is another one (the kubelet's imageServiceEndpoint);
	// empty: IMAGE_SERVICE_ENDPOINT, else RuntimeEndpoint. Pulls go there, since the kubelet looks there.
	ImageEndpoint string
	// RegistryConfigPath is where hosts.toml files are, folders separated by colons. Empty: what the runtime says, else
	// containerd's default.
	RegistryConfigPath string
	// Logger gets what is worth knowing; nil means none.
	Logger *slog.Logger
}

// Info is what a runtime is and can do.
type Info struct {
	Name          string `json:"name"`
	Version       string `json:"version"`
	Endpoint      string `json:"endpoint"`
	ImageEndpoint string `json:"imageEndpoint"`
	// Detail tells how much of a pull can be seen.
	Detail Detail `json:"progress"`
	// Snapshotter is the one into which CRI unpacks; empty where the runtime has no native API.
	Snapshotter string `json:"snapshotter,omitempty"`
	// DiscardsLayers is true where blobs are dropped once they are unpacked (discard_unpacked_layers).
	DiscardsLayers bool `json:"discardsLayers"`
	// RegistryConfigPath is where hosts.toml files are looked for.
	RegistryConfigPath string `json:"registryConfigPath,omitempty"`
}

// Engine is how bytes are fetched.
type Engine string

// EngineCRI lets the runtime fetch, as the kubelet does.
const EngineCRI Engine = "cri"

// PullOptions says how to pull.
type PullOptions struct {
	// Name names the image in Progress and in the lease that keeps partial downloads; empty: the reference.
	Name string
	// Engine is how bytes are fetched; empty means EngineCRI.
	Engine Engine
	// Interval is the time between two looks at the runtime; 0 means one second.
	Interval time.Duration
}

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

// Plan is what pulls of some images, in this order, would do.
type Plan struct {
	Images []ImagePlan `json:"images"`
	Fetch  int64       `json:"fetch"`
	Unpack int64       `json:"unpackEstimate"`
	// Disk is the file system of the images now; nil where the runtime does not tell or it cannot be seen from here.
	Disk *Disk `json:"disk,omitempty"`
}

// Disk is a file system, in bytes.
type Disk struct {
	Path  string `json:"path"`
	Total int64  `json:"total"`
	// Free is what an unprivileged process can still write.
	Free int64 `json:"free"`
}

// Event says that something happened to an image or a snapshot in the runtime, whoever did it.
type Event struct {
	// Reference is the name of the image record; empty for a snapshot.
	Reference string
	// ChainID is the name of the snapshot; empty for an image record.
	ChainID digest.Digest
}

// Runtime is a connection to a container runtime. Its methods may be called from several goroutines.
type Runtime struct{ info Info }

// Connect finds the runtime's sockets, connects, and learns what the runtime can do. The error names every socket that
// was tried.
func Connect(ctx context.Context, o Options) (*Runtime, error) { panic("soon") }

// Close ends the connection.
func (r *Runtime) Close() error { panic("soon") }

// Info is what the runtime is and can do.
func (r *Runtime) Info() Info { return r.info }

// Local tells what a reference means to the runtime, without asking a registry. ErrNotPresent where it is not present.
func (r *Runtime) Local(ctx context.Context, ref Reference) (Image, error) { panic("soon") }

// Resolve asks the registry what a reference means, through the mirrors and certificates of the runtime's hosts.toml.
func (r *Runtime) Resolve(ctx context.Context, ref Reference) (Image, error) { panic("soon") }

// Plan tells what pulls of the images, in this order, would fetch and unpack.
func (r *Runtime) Plan(ctx context.Context, images ...Image) (Plan, error) { panic("soon") }

// Pull fetches and unpacks what is missing of an image. The sequence yields progress as it changes, at most once per
// interval, and ends after the last one, or with an error. To stop ranging, or to cancel ctx, cancels the pull; what
// has been fetched is kept for the next try.
func (r *Runtime) Pull(ctx context.Context, img Image, o PullOptions) iter.Seq2[Progress, error] {
	panic("soon")
}

// Verify proves that an image is ready: present under its reference, with the configuration that was resolved, and every
// chain ID unpacked in the snapshotter that CRI uses. It returns on which check that rests ("snapshots" or "runtime"),
// or ErrNotPresent, ErrOtherImage, ErrNotUnpacked.
func (r *Runtime) Verify(ctx context.Context, img Image) (string, error) { panic("soon") }

// Events yields what happens to images and snapshots in the runtime until ctx ends or the stream breaks, which the error
// tells. The first event is empty and says that the stream stands: what was verified after it cannot be missed.
func (r *Runtime) Events(ctx context.Context) iter.Seq2[Event, error] { panic("soon") }
