// Package node is what is told to the API server about this node. It is given the desired state and keeps the Node as
// that says, level-triggered: by what the Node is, whatever has happened. It knows nothing of container runtimes.
package node

import (
	"maps"
	"time"

	"github.com/opencontainers/go-digest"
)

// Readiness is what is known of whether something is ready. Of what is Unknown nothing is said: what stands on the Node
// stays, also what an earlier agent has written.
type Readiness string

// What can be known. The zero value is Unknown.
const (
	Unknown  Readiness = ""
	NotReady Readiness = "not ready"
	Ready    Readiness = "ready"
)

// Image is what is known of one image.
type Image struct {
	Readiness Readiness
	// Required says that the node is not ready without it.
	Required bool
	// Digest is what the image's reference means; only that of a ready image is told.
	Digest digest.Digest
	// Reason and Message tell why an image that is not ready has failed; empty while it is on its way.
	Reason, Message string
}

// State is what is known of this node. The zero value is that nothing is known.
type State struct {
	// Readiness is that of all required images together.
	Readiness Readiness
	// Images are all images that this node needs, by the name they have in the configuration; nil as long as it is not
	// known which these are.
	Images map[string]Image
	// FailOpenAfter is how long after its beginning a Node whose images are not ready takes pods all the same; 0 is never.
	FailOpenAfter time.Duration
}

func (s State) equal(o State) bool {
	return s.Readiness == o.Readiness && s.FailOpenAfter == o.FailOpenAfter && (s.Images == nil) == (o.Images == nil) && maps.Equal(s.Images, o.Images)
}

// Facts is what the Node says of itself that decides which images it needs.
type Facts struct {
	// Labels are the Node's labels, without ours.
	Labels map[string]string
	// Resources are the extended resources that the Node can allocate, such as nvidia.com/gpu: there once a device plugin
	// has registered.
	Resources map[string]int64
	// Hold is why nothing should be brought to the Node now.
	Hold Hold
	// Kubelet are the thresholds of the Node's kubelet, as far as they are known.
	Kubelet Thresholds
}

func (f Facts) equal(o Facts) bool {
	return maps.Equal(f.Labels, o.Labels) && maps.Equal(f.Resources, o.Resources) && f.Hold == o.Hold && f.Kubelet == o.Kubelet
}
