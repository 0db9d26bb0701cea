package node

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// object is what we keep of a Node: most of one is its list of images, which is none of our business.
type object struct {
	uid     types.UID
	version string
	labels  map[string]string
	facts   Facts
	created time.Time
	taints  []corev1.Taint
	// condition is ours; nil where there is none.
	condition *corev1.NodeCondition
	// karpenter is true of a node that Karpenter has made, and registered once it has taken the node in.
	karpenter, registered bool
}

func objectOf(n *corev1.Node) *object {
	o := &object{
		uid: n.UID, version: n.ResourceVersion, labels: n.Labels, created: n.CreationTimestamp.Time, taints: n.Spec.Taints,
		registered: n.Labels[registeredLabel] == "true",
	}
	if i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == ConditionImagesReady }); i >= 0 {
		o.condition = n.Status.Conditions[i].DeepCopy()
	}
	_, o.karpenter = n.Labels[karpenterLabel]
	o.karpenter = o.karpenter || slices.ContainsFunc(n.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "NodeClaim" })
	o.facts = Facts{Labels: maps.Clone(n.Labels), Resources: map[string]int64{}, Hold: holdOf(n)}
	maps.DeleteFunc(o.facts.Labels, func(key, _ string) bool { return ours(key) })
	for name, amount := range n.Status.Allocatable {
		if strings.Contains(string(name), "/") { // an extended resource has a domain
			o.facts.Resources[string(name)] = amount.Value()
		}
	}
	return o
}

// olderThan reports whether o is an earlier state than other. Versions that cannot be compared count as later ones:
// better to look twice than to miss something. (KEP-5504, "Comparable Resource Version")
func (o *object) olderThan(other *object) bool {
	return other != nil && olderVersion(o.version, other.version)
}

func olderVersion(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
