package node

import (
	"strings"

	"github.com/opencontainers/go-digest"
)

// What we write on a Node, and nothing else.
const (
	// LabelReady is on a Node while every required image is ready on it, with the value "true". It is removed otherwise
	// and never "false", so that a selector need not know of a third case.
	LabelReady = "prewarm.dev/image-ready"
	// LabelImagePrefix and the image's name make the label of a ready image. Its value is the beginning of the digest, so
	// that a selector can ask for one version of the image.
	LabelImagePrefix = "image.prewarm.dev/"
	// ConditionImagesReady is the type of the Node's condition: True while the node is ready, False with the reason otherwise.
	ConditionImagesReady = "prewarm.dev/ImagesReady"
	// LabelWarm is on a placeholder pod while its node is ready, with the value "true". A PodDisruptionBudget spares those that
	// do not have it, so that a Space displaces a placeholder whose node is warm.
	LabelWarm = "prewarm.dev/warm"
	// GateImageReady is the readiness gate of placeholder pods, and the type of the condition that opens it.
	GateImageReady = "prewarm.dev/image-ready"
	// EventFailedOpen is the reason of the event that a Node takes pods although its images are not ready.
	EventFailedOpen = "FailedOpen"
	// labelTrue is the only value of LabelReady.
	labelTrue = "true"
	// labelDigits is how many hexadecimal digits of a digest a label has.
	labelDigits = 12
)

// ours reports whether a label is one that we write.
func ours(key string) bool { return key == LabelReady || strings.HasPrefix(key, LabelImagePrefix) }

// labelValue is the beginning of a digest; empty where there is none.
func labelValue(d digest.Digest) string {
	_, hex, _ := strings.Cut(d.String(), ":")
	return hex[:min(len(hex), labelDigits)]
}
