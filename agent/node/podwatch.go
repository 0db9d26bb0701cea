package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// watchPods sends what is seen of the placeholder pods of this node until ctx ends.
func (m *marker) watchPods(ctx context.Context) {
	send := func(s podSighting) {
		select {
		case m.seen <- s:
		case <-ctx.Done():
		}
	}
	keepWatching(ctx, func(version string) (string, error) { return m.followPods(ctx, version, send) }, func(err error) {
		if !gone(err) {
			send(podSighting{err: err})
		}
	})
}

// followPods sends the changes of the pods since a version until the watch ends, and gives the version from which to go on. A
// watch from the empty one begins with all there are.
func (m *marker) followPods(ctx context.Context, version string, send func(podSighting)) (string, error) {
	w, err := m.client.watchPods(ctx, m.Placeholders, version)
	if err != nil {
		return "", err
	}
	defer w.Stop()
	if version == "" {
		send(podSighting{anew: true})
	}
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			return "", translate(m.Node, apierrors.FromObject(event.Object))
		}
		p, ok := event.Object.(*corev1.Pod)
		if !ok {
			return "", translate(m.Node, fmt.Errorf("the watch sent a %T", event.Object))
		}
		version = p.ResourceVersion
		switch event.Type {
		case watch.Added, watch.Modified:
			send(podSighting{uid: p.UID, pod: podOf(p)})
		case watch.Deleted:
			send(podSighting{uid: p.UID})
		case watch.Bookmark, watch.Error:
		}
	}
	return version, nil
}
