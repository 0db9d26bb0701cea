package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
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
	return showEach(w, m.Node, version, func(p *corev1.Pod, deleted bool) {
		s := podSighting{uid: p.UID}
		if !deleted {
			s.pod = podOf(p)
		}
		send(s)
	})
}
