package cri

import (
	"errors"
	"fmt"
)

// Reason says in one CamelCase word why an image is not ready (Kubernetes API conventions, "conditions"). The same
// constant stands in errors, status, metrics, events and conditions.
type Reason string

// The reasons. Each has one remedy, which the README's table names.
const (
	ReasonInvalidReference    Reason = "InvalidReference"
	ReasonImageNotFound       Reason = "ImageNotFound"       // the registry knows no such repository, tag or digest
	ReasonManifestMissing     Reason = "ManifestMissing"     // an index names a manifest that the registry has not
	ReasonNoMatchingPlatform  Reason = "NoMatchingPlatform"  // the index has nothing for this node's platform
	ReasonInvalidImage        Reason = "InvalidImage"        // manifest or configuration contradict themselves
	ReasonInvalidLayer        Reason = "InvalidLayer"        // a layer cannot be unpacked
	ReasonDigestMismatch      Reason = "DigestMismatch"      // the registry sent other bytes than it announced
	ReasonUnauthorized        Reason = "Unauthorized"        // 401 or 403
	ReasonRateLimited         Reason = "RateLimited"         // 429
	ReasonRegistryUnavailable Reason = "RegistryUnavailable" // refused, reset, timed out, 5xx
	ReasonUnknownHost         Reason = "UnknownHost"         // the registry's name does not resolve
	ReasonCertificateInvalid  Reason = "CertificateInvalid"
	ReasonDiskTooSmall        Reason = "DiskTooSmall"       // a pull would leave too little room; it is not begun
	ReasonDiskPressure        Reason = "DiskPressure"       // the node says so; no pull is begun
	ReasonNodeUnhealthy       Reason = "NodeUnhealthy"      // the node is being checked, or faulty; no pull is begun
	ReasonNodeLeaving         Reason = "NodeLeaving"        // the node will be removed; no pull is begun
	ReasonDiskFull            Reason = "DiskFull"           // the file system filled up while pulling
	ReasonStalled             Reason = "Stalled"            // nothing arrived and nothing was unpacked for too long
	ReasonRuntimeUnavailable  Reason = "RuntimeUnavailable" // the socket does not answer (any more)
	ReasonRuntimeUnsupported  Reason = "RuntimeUnsupported" // the socket answers, but is no CRI
	ReasonPermissionDenied    Reason = "PermissionDenied"   // the socket may not be opened
	ReasonAnotherAgent        Reason = "AnotherAgent"       // another agent works with the runtime of this node
	ReasonNotPresent          Reason = "NotPresent"         // the runtime does not have the image
	ReasonNotUnpacked         Reason = "NotUnpacked"        // present, but a chain ID is not in the snapshotter
	ReasonOtherImage          Reason = "OtherImage"         // present under this reference, but another image
	ReasonCanceled            Reason = "Canceled"           // we were told to stop
	ReasonPullFailed          Reason = "PullFailed"         // anything else; the message has the runtime's words
	ReasonInUse               Reason = "InUse"              // a container was started from it: it is not removed
	ReasonQueued              Reason = "Queued"             // waits for its turn
)

// Permanent reports whether trying again at once is useless: only a change at the registry or in the configuration
// helps, so the next try may be far away.
func (r Reason) Permanent() bool {
	switch r {
	case ReasonInvalidReference, ReasonImageNotFound, ReasonManifestMissing, ReasonNoMatchingPlatform,
		ReasonInvalidImage, ReasonInvalidLayer, ReasonUnauthorized, ReasonRuntimeUnsupported, ReasonPermissionDenied:
		return true
	default:
		return false
	}
}

// Error is an error of this package: it names the noun that an operator knows, carries the reason, and wraps the cause.
type Error struct {
	Reason Reason
	// Noun is what it is about: a reference, a socket, a digest.
	Noun string
	// Remedy says what to do, as a sentence without a full stop; may be empty.
	Remedy string
	Err    error
}

// Error says what was tried, what happened, and what to do.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s: %v", e.Noun, e.Reason, e.Err)
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches any other *Error of the same reason, so that errors.Is(err, cri.ErrNotPresent) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error) // one link of the chain, by the contract of Is
	return ok && t.Err == nil && t.Reason == e.Reason
}

// Sentinels for errors.Is.
var (
	ErrNotPresent  error = &Error{Reason: ReasonNotPresent}
	ErrNotUnpacked error = &Error{Reason: ReasonNotUnpacked}
	ErrOtherImage  error = &Error{Reason: ReasonOtherImage}
)

// ReasonOf gives the reason of an error; ReasonPullFailed where it has none, and "" for nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ReasonPullFailed
}
