// Package status is the agent's state as data: one snapshot that every reporter reads, and the HTTP server that shows it.
package status

import (
	"reflect"
	"slices"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
)

// Snapshot is what the agent knows at one moment. It is a value that is never changed once it has been handed out;
// whoever reads it must not change what it shares with others (Images and their layers).
type Snapshot struct {
	// Node is the name of the Node; empty when standalone.
	Node       string `json:"node,omitempty"`
	Standalone bool   `json:"standalone"`
	// Ready is true while every required image of this node is ready. It is derived: see Readiness.
	Ready bool `json:"ready"`
	// Configured is true once a configuration is in force and the images of this node have been chosen by it.
	Configured bool `json:"configured"`
	// Runtime is the container runtime, and RuntimeError why it does not answer; empty while it does.
	Runtime      cri.Info `json:"runtime"`
	RuntimeError string   `json:"runtimeError,omitempty"`
	// NodeError is why the Node does not say what it should; empty while it does, or when standalone.
	NodeError     string        `json:"nodeError,omitempty"`
	Configuration Configuration `json:"configuration"`
	// Images are those that this node needs, in the order of the configuration.
	Images    []ImageStatus `json:"images"`
	UpdatedAt time.Time     `json:"updatedAt"`
}

// Configuration tells which configuration is in force.
type Configuration struct {
	// Source is where it is read from.
	Source string `json:"source,omitempty"`
	// Generation is that of the configuration in force, which counts the contents that the source has had; 0 while none
	// has been good.
	Generation int64 `json:"generation"`
	// LoadedAt is when the one in force was loaded; zero while there is none.
	LoadedAt time.Time `json:"loadedAt,omitzero"`
	// Error is what is wrong with a newer one that was refused; empty while the newest is in force.
	Error string `json:"error,omitempty"`
	// FailOpenAfterSeconds is the startupTaint.failOpenAfter of the one in force; 0 means never.
	FailOpenAfterSeconds float64 `json:"failOpenAfterSeconds,omitempty"`
}

// ImageStatus is the state of one image.
type ImageStatus struct {
	cri.Progress

	// Required says that the node is not ready without it.
	Required bool `json:"required"`
	// Known is false until the runtime has told whether the image is there: at the agent's start, and after how the image is
	// to be kept has changed. Until then what was said about the image before stays said.
	Known bool `json:"known"`
	// Pinned is true while kubelet and containerd are kept from collecting the image.
	Pinned bool `json:"pinned"`
	// Refresh is what is known of whether the reference still means this image.
	Refresh Refresh `json:"refresh,omitzero"`
	// Room is what the last look at the disk before a pull found.
	Room Room `json:"room,omitzero"`
}

// Room compares what a pull needs with what there is on the file system of the images, in bytes.
type Room struct {
	// Need is what the pull fetches, and an estimate of what it unpacks.
	Need int64 `json:"need"`
	Free int64 `json:"free"`
	// Keep is what must stay free for the kubelet, and the headroom.
	Keep int64 `json:"keep"`
}

// Refresh tells of the questions to the registry what a reference means now. They are asked while an image is ready, and
// it stays so whatever the answer.
type Refresh struct {
	// CheckedAt is when the registry was asked last; zero before the first time.
	CheckedAt time.Time `json:"checkedAt,omitzero"`
	// Reason and Message tell why it gave no answer, or why what it named cannot be had; empty where all is well.
	Reason  cri.Reason `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	// Next is the image that the reference means now, while that is being pulled beside the ready one.
	Next *cri.Progress `json:"next,omitempty"`
}

// Readiness is what is known of whether something is ready.
type Readiness string

// What can be known. Unknown, the zero value, means that there is no evidence either way. The words are those of package
// node.
const (
	Unknown  Readiness = ""
	NotReady Readiness = "not ready"
	Ready    Readiness = "ready"
)

// Readiness tells whether the image is ready.
func (i ImageStatus) Readiness() Readiness {
	switch {
	case !i.Known:
		return Unknown
	case i.Phase == cri.PhaseReady:
		return Ready
	default:
		return NotReady
	}
}

// Readiness tells whether the node is ready: it is when all of its required images are, and is known not to be as soon as
// one of them is known not to be.
func (s Snapshot) Readiness() Readiness {
	if !s.Configured {
		return Unknown
	}
	result := Ready
	for _, i := range s.Images {
		if !i.Required {
			continue
		}
		switch i.Readiness() {
		case NotReady:
			return NotReady
		case Unknown:
			result = Unknown
		case Ready:
		}
	}
	return result
}

// Image finds an image by the name it has in the configuration.
func (s Snapshot) Image(name string) (ImageStatus, bool) {
	for _, i := range s.Images {
		if i.Image == name {
			return i, true
		}
	}
	return ImageStatus{}, false
}

// changedSince gives the images that differ from those of an earlier snapshot, and whether anything else does: the
// images that this node needs, or what stands beside them.
func (s Snapshot) changedSince(before Snapshot) (images []ImageStatus, rest bool) {
	name := func(a, b ImageStatus) bool { return a.Image == b.Image }
	if !slices.EqualFunc(s.Images, before.Images, name) {
		return nil, true
	}
	for i, now := range s.Images {
		if !reflect.DeepEqual(now, before.Images[i]) {
			images = append(images, now)
		}
	}
	s.Images, before.Images = nil, nil
	s.UpdatedAt, before.UpdatedAt = time.Time{}, time.Time{}
	return images, !reflect.DeepEqual(s, before)
}
