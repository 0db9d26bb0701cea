package node

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTranslate(t *testing.T) {
	t.Parallel()
	nodes := corev1.Resource("nodes")
	invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Node").GroupKind(), nodeName, nil)
	cases := map[string]struct {
		err    error
		reason Reason
		result string
		remedy string
		is     error
	}{
		"404":                     {apierrors.NewNotFound(nodes, nodeName), ReasonNodeNotFound, "missing", "--node-name or NODE_NAME", ErrNodeNotFound},
		"404 of something else":   {apierrors.NewGenericServerResponse(404, "get", nodes, nodeName, "404 page not found", 0, true), ReasonFailed, "failure", "", nil},
		"403":                     {forbidden(), ReasonForbidden, "forbidden", "get, watch and patch", ErrForbidden},
		"401":                     {apierrors.NewUnauthorized("no"), ReasonUnauthorized, "forbidden", "of this cluster", ErrUnauthorized},
		"409":                     {conflict(), ReasonConflict, "conflict", "", ErrConflict},
		"422, another UID":        {otherUID(), ReasonConflict, "conflict", "", ErrConflict},
		"422":                     {invalid, ReasonInvalid, "failure", "", nil},
		"400":                     {apierrors.NewBadRequest("no"), ReasonInvalid, "failure", "", nil},
		"410":                     {apierrors.NewResourceExpired("too old"), ReasonFailed, "failure", "", nil},
		"429":                     {apierrors.NewTooManyRequestsError("wait"), ReasonAPIServerUnavailable, "failure", "is the API server running", ErrAPIServerUnavailable},
		"500":                     {apierrors.NewInternalError(errors.New("etcd")), ReasonAPIServerUnavailable, "failure", "is the API server running", ErrAPIServerUnavailable},
		"503":                     {apierrors.NewServiceUnavailable("no"), ReasonAPIServerUnavailable, "failure", "is the API server running", ErrAPIServerUnavailable},
		"nothing listens":         {&url.Error{Op: "Get", URL: "https://x", Err: syscall.ECONNREFUSED}, ReasonAPIServerUnavailable, "failure", "is its address right", ErrAPIServerUnavailable},
		"an error in an envelope": {fmt.Errorf("in the middle: %w", apierrors.NewNotFound(nodes, nodeName)), ReasonNodeNotFound, "missing", "", ErrNodeNotFound},
	}
	all := []error{ErrNodeNotFound, ErrForbidden, ErrUnauthorized, ErrConflict, ErrAPIServerUnavailable}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("outside: %w", translate(nodeName, c.err))
			if got := ReasonOf(err); got != c.reason || got.result() != c.result {
				t.Errorf("reason %s, result %s; want %s, %s", got, got.result(), c.reason, c.result)
			}
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), "Node worker-1: "+string(c.reason)) || !strings.Contains(err.Error(), c.remedy) {
				t.Errorf("the error is %q", err)
			}
			for _, sentinel := range all {
				if errors.Is(err, sentinel) != (sentinel == c.is) { //nolint:errorlint // which of them it is
					t.Errorf("is %v: %v", sentinel, errors.Is(err, sentinel))
				}
			}
		})
	}
}

func TestReasonOf(t *testing.T) {
	t.Parallel()
	if translate(nodeName, nil) != nil {
		t.Error("an error was made of none")
	}
	if got := ReasonOf(nil); got != "" || got.result() != "success" {
		t.Errorf("none: %q", got)
	}
	if got := ReasonOf(errors.New("x")); got != ReasonFailed {
		t.Errorf("any: %q", got)
	}
}

func TestStatusOfAnErrorThatIsNotTheirs(t *testing.T) {
	t.Parallel()
	if got := statusOf(errors.New("x")); got.Code != 0 || got.Reason != metav1.StatusReason("") {
		t.Errorf("got %+v", got)
	}
}
