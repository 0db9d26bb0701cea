package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The reasons of the condition, beside those of images that failed.
const (
	// ConditionReady is the reason of a condition that is True.
	ConditionReady = "ImagesReady"
	// ConditionPending is the reason while images are on their way, and nothing has failed.
	ConditionPending = "ImagesPending"
)

// longestMessage bounds the message of a condition or an event, in bytes; events are refused over 1024.
const longestMessage = 1000

// condition is what the Node's condition is to say; false where nothing is known, and what stands on the Node stays.
func (s State) condition() (corev1.NodeCondition, bool) {
	c := corev1.NodeCondition{Type: ConditionImagesReady}
	switch s.Readiness {
	case Ready:
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, ConditionReady, s.readyMessage()
	case NotReady:
		c.Status = corev1.ConditionFalse
		c.Reason, c.Message = s.missing()
	case Unknown:
		return c, false
	}
	return c, true
}

func (s State) readyMessage() string {
	n := 0
	for _, i := range s.Images {
		if i.Required {
			n++
		}
	}
	if n == 0 {
		return "this node needs no image"
	}
	return fmt.Sprintf("all required images of this node are ready: %d", n)
}

// missing tells which required images are not ready. The reason is that of the first of them that failed.
func (s State) missing() (reason, message string) {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(s.Images)) {
		i := s.Images[name]
		switch {
		case !i.Required || i.Readiness == Ready:
			continue
		case i.Reason == "":
			words = append(words, name+" is on its way")
			continue
		case reason == "":
			reason = i.Reason
		}
		words = append(words, name+": "+i.Message)
	}
	if reason == "" {
		reason = ConditionPending
	}
	return reason, shorten(strings.Join(words, "; "))
}

// shorten cuts a message where it is too long, and not within a letter.
func shorten(message string) string {
	if len(message) <= longestMessage {
		return message
	}
	return strings.ToValidUTF8(message[:longestMessage-3], "") + "…"
}

// conditionDue gives the condition that the Node is to have, unless what it has says the same. That an image is tried again is
// no news while its failure stands there: it would be two writes for each try.
func (s State) conditionDue(o *object, now time.Time) *patch {
	want, known := s.condition()
	have := o.condition
	switch {
	case !known,
		have != nil && have.Status == want.Status && (have.Reason == want.Reason || want.Reason == ConditionPending):
		return nil
	}
	want.LastHeartbeatTime, want.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
	if have != nil && have.Status == want.Status {
		want.LastTransitionTime = have.LastTransitionTime
	}
	return conditionPatch(objectNodeStatus, o.uid, want,
		fmt.Sprintf("%s=%s %s: %s", want.Type, want.Status, want.Reason, want.Message))
}
