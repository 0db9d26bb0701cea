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
