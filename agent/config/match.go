package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prewarm-dev/prewarm/cri"
)

// Accelerator is what a node has beside its CPUs, as far as the choice of an image depends on it.
type Accelerator string

// The accelerators. None means no NVIDIA GPU: nodes with Inferentia, Trainium or AMD GPUs take the CPU image.
const (
	AcceleratorNone   Accelerator = "none"
	AcceleratorNVIDIA Accelerator = "nvidia"
	AcceleratorAny    Accelerator = "any"
)

// ParseAccelerator reads the word of a flag.
func ParseAccelerator(word string) (Accelerator, error) {
	if !slices.Contains(accelerators(), word) {
		return "", fmt.Errorf("accelerator %q is not known; %s", word, oneOf(word, accelerators()))
	}
	return Accelerator(word), nil
}

// ParseEngine reads the word of a flag as the field pull.engine is read.
func ParseEngine(word string) (cri.Engine, error) {
	engine, problem, remedy := resolveEngine(word)
	if problem != "" {
		return "", fmt.Errorf("engine %q %s; %s", word, problem, remedy)
	}
	return engine, nil
}

// NodeFacts is what the choice of images depends on.
type NodeFacts struct {
	// Labels are the Node's labels.
	Labels map[string]string
	// Accelerator is what DetectAccelerator found; any, or nothing, stands for not known and asks no image about it.
	Accelerator Accelerator
	// Hold says why no pull may begin there now.
	Hold Hold
	// Kubelet are the thresholds of its kubelet; the zero value stands for the defaults.
	Kubelet Thresholds
	// Standalone means that there is no Node: conditions on labels are not asked.
	Standalone bool
}

// For gives the images that a node needs, in the order of the file. They share memory with the configuration.
func (c *Configuration) For(node NodeFacts) []Image {
	var needed []Image
	for _, i := range c.Images {
		if i.Nodes.match(node) {
			needed = append(needed, i)
		}
	}
	return needed
}

func (n Nodes) match(node NodeFacts) bool {
	open := func(a Accelerator) bool { return a == AcceleratorAny || a == "" }
	if !open(n.Accelerator) && !open(node.Accelerator) && n.Accelerator != node.Accelerator {
		return false
	}
	if node.Standalone {
		return true
	}
	for key, want := range n.MatchLabels {
		if value, ok := node.Labels[key]; !ok || value != want {
			return false
		}
	}
	return !slices.ContainsFunc(n.MatchExpressions, func(r Requirement) bool { return !r.match(node.Labels) })
}

// match has the meaning of labels.Requirement in Kubernetes: a label that is absent is not in any set.
func (r Requirement) match(labels map[string]string) bool {
	value, ok := labels[r.Key]
	switch r.Operator {
	case OperatorIn:
		return ok && slices.Contains(r.Values, value)
	case OperatorNotIn:
		return !ok || !slices.Contains(r.Values, value)
	case OperatorExists:
		return ok
	case OperatorDoesNotExist:
		return !ok
	default:
		return false
	}
}

// The labels that tell of an accelerator: the kubelet's or the cloud provider's, and the one of NVIDIA's
// gpu-feature-discovery.
const (
	LabelInstanceType = "node.kubernetes.io/instance-type"
	LabelGPUPresent   = "nvidia.com/gpu.present"
)

// nvidiaInstance matches the instance types of EC2, and of SageMaker with its prefix, that have NVIDIA GPUs: families P,
// G and GR, then a generation (Amazon EC2 user guide, "Accelerated computing"). What comes after the generation is a
// variant such as dn or en, or the name of a GPU as in p6-b200. Types of other clouds do not match by accident:
// g1-small and g2-standard-4 have no GPU name after their generation.
var nvidiaInstance = regexp.MustCompile(`^(?:ml\.)?(?:p|gr?)[0-9]+([a-z]*)(?:-[a-z]+[0-9]+)?(?:\.[a-z0-9-]+)?$`)

// DetectAccelerator says what a node has. The instance type and the label are there when a node joins; resources, the
// amounts in allocatable or capacity by name, only once a device plugin has registered, so that one alone is enough. It
// never says any.
func DetectAccelerator(labels map[string]string, resources map[string]int64) Accelerator {
	if labels[LabelGPUPresent] == "true" {
		return AcceleratorNVIDIA
	}
	// The variant ad is AMD's: g4ad.
	if m := nvidiaInstance.FindStringSubmatch(labels[LabelInstanceType]); m != nil && m[1] != "ad" {
		return AcceleratorNVIDIA
	}
	for name, amount := range resources {
		if amount > 0 && isNVIDIAResource(name) {
			return AcceleratorNVIDIA
		}
	}
	return AcceleratorNone
}

// isNVIDIAResource knows whole GPUs, shared ones and MIG slices (k8s-device-plugin, "mixed" strategy).
func isNVIDIAResource(name string) bool {
	return name == "nvidia.com/gpu" || name == "nvidia.com/gpu.shared" || strings.HasPrefix(name, "nvidia.com/mig-")
}
