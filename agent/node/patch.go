package node

import (
	"k8s.io/apimachinery/pkg/types"
)

// The objects that are written, as they are counted.
const (
	objectNode       = "node"
	objectNodeStatus = "node/status"
	objectPod        = "pod"
	objectPodStatus  = "pod/status"
	objectEvent      = "event"
)

// patch is a change of an object that is due.
type patch struct {
	// object is what is written, as it is counted.
	object string
	// status says that it is the subresource status.
	status bool
	kind   types.PatchType
	// body is marshalled as JSON.
	body any
	// what is logged of it.
	what any
}

// labelPatch changes labels of the object with this UID; the object must be that. A JSON merge patch (RFC 7386) leaves alone
// what it does not name, whoever writes that at the same time.
func labelPatch(object string, uid types.UID, labels labelChanges) *patch {
	return &patch{
		object: object, kind: types.MergePatchType, what: labels,
		body: map[string]any{"metadata": map[string]any{"uid": uid, "labels": labels}},
	}
}

// conditionPatch sets one condition in the status of the object with this UID. In a strategic merge patch conditions are told
// apart by their type, so those of others stay.
func conditionPatch(object string, uid types.UID, condition, what any) *patch {
	return &patch{
		object: object, status: true, kind: types.StrategicMergePatchType, what: what,
		body: map[string]any{
			"metadata": map[string]any{"uid": uid},
			"status":   map[string]any{"conditions": []any{condition}},
		},
	}
}
