// Package config is the PrewarmConfiguration: which images a node needs and how they are kept. It reads the file
// strictly, says everything that is wrong with it at once and what to write instead, chooses the images of a node, and
// reports changes of the file while the agent runs.
package config

import (
	"time"

	"github.com/prewarm-dev/prewarm/cri"
)

// What a configuration file must say that it is.
const (
	APIVersion = "prewarm.dev/v1alpha1"
	Kind       = "PrewarmConfiguration"
)

// What holds where the file says nothing.
const (
	// DefaultRefreshInterval is the time between two questions to the registry what a tag means now.
	DefaultRefreshInterval = 6 * time.Hour
	// DefaultPin keeps the kubelet and containerd from garbage-collecting an image.
	DefaultPin = true
	// DefaultRequired makes a node's readiness depend on an image.
	DefaultRequired = true
	// DefaultMaxParallelImages is one: images share layers, network and disk, and the first of the file is ready first.
	DefaultMaxParallelImages = 1
	// DefaultStallTimeout is how long a pull may stand still. Unpacking one large layer on a slow disk takes minutes.
	DefaultStallTimeout = 5 * time.Minute
	// DefaultHeadroomPercent is a share of the file system that holds the images.
	DefaultHeadroomPercent = 5
	// DefaultFailOpenAfter is when a node that could not be warmed takes pods all the same.
	DefaultFailOpenAfter = 30 * time.Minute
)

// Configuration is a file that has been read and checked: every default is filled in. Two nodes of one pool that read
// the same file get the same value. Marshalled as YAML or JSON it is a valid file of the same meaning; Parse is the only
// way back.
type Configuration struct {
	APIVersion   string       `json:"apiVersion"   yaml:"apiVersion"`
	Kind         string       `json:"kind"         yaml:"kind"`
	Images       []Image      `json:"images"       yaml:"images"`
	Defaults     Defaults     `json:"defaults"     yaml:"defaults"`
	Pull         Pull         `json:"pull"         yaml:"pull"`
	Disk         Disk         `json:"disk"         yaml:"disk"`
	StartupTaint StartupTaint `json:"startupTaint" yaml:"startupTaint"`
}

// Image is an image to keep on nodes. Images are pulled in the order of the file.
type Image struct {
	// Name is a lower-case DNS label of at most 63 characters, unique in the file: it stands in the Node label
	// image.prewarm.dev/<name>, in metrics and in events.
	Name string `json:"name" yaml:"name"`
	// Reference is what Spaces start from, completed as the kubelet completes it.
	Reference cri.Reference `json:"reference" yaml:"reference"`
	// Nodes says which nodes need the image.
	Nodes Nodes `json:"nodes" yaml:"nodes"`
	// Required images must be ready before the node is.
	Required bool `json:"required" yaml:"required"`
	// Pin keeps the image from garbage collection.
	Pin bool `json:"pin" yaml:"pin"`
	// RefreshInterval is the time between two looks at what the tag means now; 0 means never. A reference with a digest
	// means the same for ever, whatever stands here.
	RefreshInterval Duration `json:"refreshInterval" yaml:"refreshInterval"`
}

// Nodes chooses nodes; all of its conditions must hold. The zero value of each condition is one that always holds.
type Nodes struct {
	Accelerator      Accelerator       `json:"accelerator"                yaml:"accelerator"`
	MatchLabels      map[string]string `json:"matchLabels,omitempty"      yaml:"matchLabels,omitempty"`
	MatchExpressions []Requirement     `json:"matchExpressions,omitempty" yaml:"matchExpressions,omitempty"`
}

// Requirement is a condition on one label, with the meaning it has in Kubernetes (metav1.LabelSelectorRequirement).
type Requirement struct {
	Key      string   `json:"key"              yaml:"key"`
	Operator Operator `json:"operator"         yaml:"operator"`
	Values   []string `json:"values,omitempty" yaml:"values,omitempty"`
}

// Operator is how a label relates to the values of a Requirement.
type Operator string

// The operators of Kubernetes label selectors.
const (
	OperatorIn           Operator = "In"
	OperatorNotIn        Operator = "NotIn"
	OperatorExists       Operator = "Exists"
	OperatorDoesNotExist Operator = "DoesNotExist"
)

// Defaults hold for images that do not say otherwise.
type Defaults struct {
	RefreshInterval Duration `json:"refreshInterval" yaml:"refreshInterval"`
	Pin             bool     `json:"pin"             yaml:"pin"`
	Required        bool     `json:"required"        yaml:"required"`
}

// Pull says how images are pulled.
type Pull struct {
	// MaxParallelImages is how many images are pulled at the same time, at least 1.
	MaxParallelImages int `json:"maxParallelImages" yaml:"maxParallelImages"`
	// StallTimeout is how long a pull may go without a byte or an unpacked layer before it is cancelled and tried
	// again; 0 means for ever. The pull as a whole has no limit.
	StallTimeout Duration `json:"stallTimeout" yaml:"stallTimeout"`
	// Engine is how bytes are fetched; the word auto is resolved when the file is read.
	Engine cri.Engine `json:"engine" yaml:"engine"`
}

// Disk says how much space stays free.
type Disk struct {
	// HeadroomPercent is what stays free of the images' file system on top of the kubelet's own thresholds, 0 to 99.
	HeadroomPercent int `json:"headroomPercent" yaml:"headroomPercent"`
}

// StartupTaint says what becomes of the taint with which a new node is held back.
type StartupTaint struct {
	// FailOpenAfter is how long after the agent's start on a node that is not ready the taint is removed all the same;
	// 0 means never, and then a node that cannot be warmed takes no pods.
	FailOpenAfter Duration `json:"failOpenAfter" yaml:"failOpenAfter"`
}

// Default is a configuration without images in which everything else has its default.
func Default() *Configuration {
	return &Configuration{
		APIVersion: APIVersion,
		Kind:       Kind,
		Defaults: Defaults{
			RefreshInterval: Duration{DefaultRefreshInterval},
			Pin:             DefaultPin,
			Required:        DefaultRequired,
		},
		Pull: Pull{
			MaxParallelImages: DefaultMaxParallelImages,
			StallTimeout:      Duration{DefaultStallTimeout},
			Engine:            cri.EngineCRI,
		},
		Disk:         Disk{HeadroomPercent: DefaultHeadroomPercent},
		StartupTaint: StartupTaint{FailOpenAfter: Duration{DefaultFailOpenAfter}},
	}
}
