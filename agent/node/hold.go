package node

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Hold says why nothing should be brought to a Node now; the zero value means that it may.
type Hold struct {
	// Reason is one CamelCase word.
	Reason  string
	Message string
}

// The reasons of a Hold. They are those of package cri, which this one does not know.
const (
	HoldDiskPressure = "DiskPressure"
	HoldLeaving      = "NodeLeaving"
	HoldUnhealthy    = "NodeUnhealthy"
)

const (
	// keyHealth is a label, and at times a taint, of HyperPod (SageMaker developer guide, "HyperPod health monitoring"): it
	// says Schedulable, or Unschedulable… while a node is being checked, or waits to be replaced or rebooted.
	keyHealth           = "sagemaker.amazonaws.com/node-health-status"
	unschedulablePrefix = "Unschedulable"
)

// leaving are the taints of those who are about to remove a node.
func leaving(key string) bool {
	switch key {
	case "karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler", corev1.TaintNodeOutOfService:
		return true
	default:
		return false
	}
}

// holdOf looks for a reason not to bring anything to a Node. A Node that is only cordoned is none: somebody may want to
// have it warm before it takes pods.
func holdOf(n *corev1.Node) Hold {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeDiskPressure && c.Status == corev1.ConditionTrue {
			return Hold{HoldDiskPressure, "the kubelet says that the Node has disk pressure"}
		}
	}
	if n.DeletionTimestamp != nil {
		return Hold{HoldLeaving, "the Node is being deleted"}
	}
	health := n.Labels[keyHealth]
	for _, t := range n.Spec.Taints {
		if leaving(t.Key) {
			return Hold{HoldLeaving, "the Node has the taint " + t.Key}
		}
		if t.Key == keyHealth && strings.HasPrefix(t.Value, unschedulablePrefix) {
			health = t.Value
		}
	}
	if strings.HasPrefix(health, unschedulablePrefix) {
		return Hold{HoldUnhealthy, keyHealth + " is " + health}
	}
	return Hold{}
}
