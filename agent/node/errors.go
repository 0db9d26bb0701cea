package node

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reason says in one CamelCase word why the Node does not say what it should.
type Reason string

// The reasons.
const (
	ReasonNodeNotFound         Reason = "NodeNotFound"
	ReasonForbidden            Reason = "Forbidden"
	ReasonUnauthorized         Reason = "Unauthorized"
	ReasonConflict             Reason = "Conflict" // somebody was faster, or it is another Node of that name by now
	ReasonInvalid              Reason = "Invalid"
	ReasonAPIServerUnavailable Reason = "APIServerUnavailable" // refused, timed out, overloaded, 5xx
	ReasonFailed               Reason = "Failed"               // anything else; the message has the API server's words
)

// Error is an error of this package.
type Error struct {
	Reason Reason
	// Node is the name of the Node that it is about.
	Node string
	// Remedy says what to do; may be empty.
	Remedy string
	Err    error
}

// Error says which Node it is about, what happened and what to do.
func (e *Error) Error() string {
	s := fmt.Sprintf("Node %s: %s: %v", e.Node, e.Reason, e.Err)
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches any other *Error of the same reason, so that errors.Is(err, node.ErrNodeNotFound) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Err == nil && t.Reason == e.Reason
}

// Sentinels for errors.Is.
var (
	ErrNodeNotFound         error = &Error{Reason: ReasonNodeNotFound}
	ErrForbidden            error = &Error{Reason: ReasonForbidden}
	ErrUnauthorized         error = &Error{Reason: ReasonUnauthorized}
	ErrConflict             error = &Error{Reason: ReasonConflict}
	ErrAPIServerUnavailable error = &Error{Reason: ReasonAPIServerUnavailable}
)

// translate gives an error of the API server, or of the way to it, the name of the Node, a reason and a remedy.
func translate(name string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Reason: ReasonFailed, Node: name, Err: err}
	switch {
	case isNodeNotFound(err):
		e.Reason = ReasonNodeNotFound
		e.Remedy = "give the Node's name, as kubectl get nodes shows it, with --node-name or NODE_NAME"
	case apierrors.IsForbidden(err):
		e.Reason = ReasonForbidden
		e.Remedy = "allow the agent's account to get, watch and patch its Node"
	case apierrors.IsUnauthorized(err):
		e.Reason = ReasonUnauthorized
		e.Remedy = "the API server does not accept the token or certificate; is it of this cluster, and not expired?"
	case apierrors.IsConflict(err), isOtherNode(err):
		e.Reason = ReasonConflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		e.Reason = ReasonInvalid
	case unavailable(err):
		e.Reason = ReasonAPIServerUnavailable
		e.Remedy = "is the API server running, and is its address right?"
	}
	return e
}

// isNodeNotFound tells a Node that is not there from a server that knows of no Nodes.
func isNodeNotFound(err error) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	details := statusOf(err).Details
	return details != nil && details.Kind == nodes && details.Name != "" && len(details.Causes) == 0
}

// isOtherNode is true where a write named the UID of another Node of this name: the API server takes that for an attempt
// to change the UID (apimachinery/pkg/api/validation, ValidateObjectMetaUpdate).
func isOtherNode(err error) bool {
	if !apierrors.IsInvalid(err) {
		return false
	}
	details := statusOf(err).Details
	return details != nil && slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// unavailable is true where the API server cannot answer now, or cannot be reached: then the error is none of its own.
func unavailable(err error) bool {
	code := statusOf(err).Code
	return code == 0 || code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
}

// gone is true where the API server no longer remembers the changes since a version.
func gone(err error) bool { return statusOf(err).Code == http.StatusGone }

// statusOf gives what the API server said; nothing where the error is none of its own.
func statusOf(err error) metav1.Status {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return status.Status()
	}
	return metav1.Status{}
}

// ReasonOf gives the reason of an error; ReasonFailed where it has none, and "" for nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ReasonFailed
}

// result is the reason of a write's error as the metric has it: a closed set.
func (r Reason) result() string {
	switch r {
	case "":
		return "success"
	case ReasonConflict:
		return "conflict"
	case ReasonForbidden, ReasonUnauthorized:
		return "forbidden"
	case ReasonNodeNotFound:
		return "missing"
	default:
		return "failure"
	}
}

// seldom is true of what only a person can mend: it is tried again, but not often.
func (r Reason) seldom() bool {
	return r == ReasonForbidden || r == ReasonUnauthorized
}
