package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHold(t *testing.T) {
	t.Parallel()
	label := func(value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels = map[string]string{keyHealth: value} }
	}
	taint := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{
				{Key: "example.com/other", Effect: corev1.TaintEffectNoSchedule},
				{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule},
			}
		}
	}
	pressure := func(status corev1.ConditionStatus) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: status},
			}
		}
	}
	for name, c := range map[string]struct {
		node func(*corev1.Node)
		want string
	}{
		"nothing":                  {func(*corev1.Node) {}, ""},
		"healthy":                  {label("Schedulable"), ""},
		"being checked":            {label("Unschedulable"), HoldUnhealthy},
		"to be replaced":           {label("UnschedulablePendingReplacement"), HoldUnhealthy},
		"to be rebooted":           {label("UnschedulablePendingReboot"), HoldUnhealthy},
		"taint of the same key":    {taint(keyHealth, "Unschedulable"), HoldUnhealthy},
		"the guide's taint":        {taint(keyHealth, "Schedulable"), ""},
		"karpenter":                {taint("karpenter.sh/disrupted", ""), HoldLeaving},
		"karpenter, not there yet": {taint("karpenter.sh/unregistered", ""), ""},
		"cluster autoscaler":       {taint("ToBeDeletedByClusterAutoscaler", "1"), HoldLeaving},
		"being deleted":            {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, HoldLeaving},
		"cordoned":                 {func(n *corev1.Node) { n.Spec.Unschedulable = true }, ""},
		"disk pressure":            {pressure(corev1.ConditionTrue), HoldDiskPressure},
		"no disk pressure":         {pressure(corev1.ConditionFalse), ""},
		"disk pressure unknown":    {pressure(corev1.ConditionUnknown), ""},
		"all at once": {func(n *corev1.Node) {
			label("Unschedulable")(n)
			taint("karpenter.sh/disrupted", "")(n)
			pressure(corev1.ConditionTrue)(n)
		}, HoldDiskPressure},
	} {
		var n corev1.Node
		c.node(&n)
		got := holdOf(&n)
		if got.Reason != c.want || (got.Message == "") != (c.want == "") {
			t.Errorf("%s: %+v, want reason %q and a message with it", name, got, c.want)
		}
		if facts := objectOf(&n).facts; facts.Hold != got || facts.equal(Facts{}) != (c.want == "" && len(n.Labels) == 0) {
			t.Errorf("%s: facts %+v", name, facts)
		}
	}
}
