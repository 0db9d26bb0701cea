package cri

import (
	"log/slog"
	"time"
)

// Options says which runtime to connect to, and how.
type Options struct {
	// RuntimeEndpoint is the CRI socket, as unix:///path or /path. Empty: the environment (CONTAINER_RUNTIME_ENDPOINT),
	// else the well-known sockets.
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
	// StallTimeout ends a pull that stands still for so long, with ReasonStalled; 0 means never. See liveliness.
	StallTimeout time.Duration
	// Credential is what the registry gets; nil means nothing.
	Credential *Credential
}
