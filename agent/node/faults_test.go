package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// status answers with an error of the API server.
func status(err *apierrors.StatusError) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fail(w, err) }
}

// reset breaks the connection without an answer.
func reset(w http.ResponseWriter, _ *http.Request) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = c.Close()
	}
}

// hang never answers.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // or the server would not see that the client has left
	<-r.Context().Done()
}

func forbidden() *apierrors.StatusError {
	return apierrors.NewForbidden(corev1.Resource("nodes"), nodeName, errors.New("not allowed"))
}

func conflict() *apierrors.StatusError {
	return apierrors.NewConflict(corev1.Resource("nodes"), nodeName, errors.New("the object has been modified"))
}

func fail(w http.ResponseWriter, err *apierrors.StatusError) {
	s := err.Status()
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	answer(w, int(s.Code), s)
}

// failWith answers with an error that is one of the API server's.
func failWith(t *testing.T, w http.ResponseWriter, err error) {
	t.Helper()
	known, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		t.Error(err)
		return
	}
	fail(w, known)
}

func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

func writeEvent(w io.Writer, c change) {
	object, err := json.Marshal(c.object)
	if err == nil {
		fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", c.kind, object)
	}
}

// otherUID is what kube-apiserver 1.37 says to a patch that names the UID of another Node.
func otherUID() *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: `Node "worker-1" is invalid: metadata.uid: Invalid value: "…": field is immutable`,
		Details: &metav1.StatusDetails{Name: nodeName, Kind: "Node", Causes: []metav1.StatusCause{{
			Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid", Message: "field is immutable",
		}}},
	}}
}
