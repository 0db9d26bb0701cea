package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sighting is what was seen of the Node at one moment.
type sighting struct {
	// object is nil where there is no Node, or err says why it cannot be seen.
	object *object
	err    error
	// fresh is true of what was read from the API server's store, and not heard from its watch, which may lag.
	fresh bool
	// kubelet is set, and nothing else, where the kubelet has told its thresholds.
	kubelet *Thresholds
}

// watchNode sends what is seen of the Node until ctx ends.
func (r *Reporter) watchNode(ctx context.Context, out chan<- sighting) {
	send := func(s sighting) {
		select {
		case out <- s:
		case <-ctx.Done():
		}
	}
	if r.AskKubelet {
		r.askKubelet(ctx, send)
	}
	keepWatching(ctx, func(version string) (string, error) { return r.follow(ctx, version, send) }, func(err error) {
		if gone(err) { // usual after a long silence
			r.Logger.DebugContext(ctx, "the watch is read anew", "error", err)
			return
		}
		send(sighting{err: err})
	})
}

// keepWatching calls follow until ctx ends, each time with the version that it gave before, and with a pause that grows from one
// failure to the next. A watch that lasts is no failure, however it ends.
func keepWatching(ctx context.Context, follow func(version string) (string, error), failed func(error)) {
	version, failures := "", 0
	for ctx.Err() == nil {
		calm := time.NewTimer(calmAfter)
		var err error
		version, err = follow(version)
		select {
		case <-calm.C:
			failures = 0
		default:
			calm.Stop()
			failures++
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
		wait(ctx, pause(failures, ReasonOf(err).seldom()))
	}
}

// follow sends the changes of the Node since a version until the watch ends. It gives the version from which to go on;
// an empty one, which every error gives, means to read the Node anew.
//
// The Node is never watched from the version that a read gave: that may be minutes old, and the API server's memory of
// changes, which all Nodes share, short. It is watched from now on, which begins with the Node as it is, also where there
// is none yet (Kubernetes API concepts, "Watch: get state and start at any").
func (r *Reporter) follow(ctx context.Context, version string, send func(sighting)) (string, error) {
	if version == "" {
		o, err := r.client.get(ctx)
		if err != nil && !errors.Is(err, ErrNodeNotFound) {
			return "", err
		}
		send(sighting{object: o, err: err, fresh: true})
	}
	w, err := r.client.watchNode(ctx, version)
	if err != nil {
		return "", err
	}
	defer w.Stop()
	return showEach(w, r.Node, version, func(n *corev1.Node, deleted bool) {
		if deleted {
			send(sighting{err: translate(r.Node, apierrors.NewNotFound(corev1.Resource(nodes), r.Node))})
			return
		}
		send(sighting{object: objectOf(n)})
	})
}

// showEach hands what a watch shows to each until the watch ends, and gives the version from which to go on; with an error an
// empty one.
func showEach[T metav1.Object](w watch.Interface, node, version string, each func(object T, deleted bool)) (string, error) {
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return "", translate(node, apierrors.FromObject(event.Object))
		}
		o, ok := event.Object.(T)
		if !ok {
			return "", translate(node, fmt.Errorf("the watch sent a %T", event.Object))
		}
		version = o.GetResourceVersion()
		switch event.Type {
		case watch.Added, watch.Modified, watch.Deleted:
			each(o, event.Type == watch.Deleted)
		case watch.Bookmark, watch.Error:
		}
	}
	return version, nil
}
