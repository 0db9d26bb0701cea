package config

import (
	"cmp"
	"fmt"

	"github.com/prewarm-dev/prewarm/cri"
)

// Hold says why no pull may begin on a node now; the zero value means that they may.
type Hold struct {
	Reason  cri.Reason
	Message string
}

// Thresholds are those at which a kubelet begins to delete images or to evict pods, in percent of a file system. What is 0 stands for the default.
type Thresholds struct {
	// ImageGCHigh is how full the file system of the images may be before unused images are deleted
	// (imageGCHighThresholdPercent).
	ImageGCHigh int
	// NodeFSAvailable and ImageFSAvailable are how much must be free before pods are evicted (evictionHard).
	NodeFSAvailable, ImageFSAvailable int
}

// DefaultThresholds are the kubelet's own defaults (pkg/kubelet/apis/config/v1beta1/defaults.go).
func DefaultThresholds() Thresholds {
	return Thresholds{ImageGCHigh: 85, NodeFSAvailable: 10, ImageFSAvailable: 15}
}

// Keep is how many of total bytes must stay free, with some percent of headroom beside the kubelet's thresholds.
func (t Thresholds) Keep(total int64, headroomPercent int) int64 {
	t = t.orDefault()
	return total / 100 * int64(t.percent()+headroomPercent)
}

// Explain says where Keep comes from.
func (t Thresholds) Explain(headroomPercent int) string {
	t = t.orDefault()
	return fmt.Sprintf("%d %% for the kubelet: image GC at %d %% used, eviction at %d %% and %d %% free; and %d %% headroom",
		t.percent(), t.ImageGCHigh, t.NodeFSAvailable, t.ImageFSAvailable, headroomPercent)
}

// orDefault fills in what is not known.
func (t Thresholds) orDefault() Thresholds {
	d := DefaultThresholds()
	return Thresholds{
		ImageGCHigh: cmp.Or(t.ImageGCHigh, d.ImageGCHigh), NodeFSAvailable: cmp.Or(t.NodeFSAvailable, d.NodeFSAvailable),
		ImageFSAvailable: cmp.Or(t.ImageFSAvailable, d.ImageFSAvailable),
	}
}

func (t Thresholds) percent() int {
	return max(100-t.ImageGCHigh, t.NodeFSAvailable, t.ImageFSAvailable)
}
