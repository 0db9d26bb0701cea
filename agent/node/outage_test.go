package node

import (
	"errors"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestForbidden(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		b.forever("patch", status(forbidden()))
		b.say(ready())
		for range 360 {
			b.pass(10 * time.Second)
			b.edit(func(n *corev1.Node) { n.Labels["zone"] = "b" })
			b.say(ready())
		}
		if n := b.tries(); n < 60 || n > 121 {
			t.Errorf("%d tries in an hour", n)
		}
		b.wantProblems(t, "for an hour", ReasonForbidden)
		b.forever("patch", nil)
		b.pass(seldomPause)
		b.wantLabels(t, "once it is allowed", "zone=b", readyLabel, cpuLabel)
		b.wantProblems(t, "once it is allowed", ReasonForbidden, "")
	})
}

// TestAPIServerAway: ten minutes away, three states meanwhile, and the last of them counts.
func TestAPIServerAway(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1", "zone=a")
		b.start(t)
		b.say(ready())
		b.leave(true)
		for _, s := range []State{lost(), ready(), lost()} {
			b.say(s)
			b.pass(200 * time.Second)
		}
		b.wantProblems(t, "away", ReasonAPIServerUnavailable)
		if n := b.tries(); n < 40 || n > 150 {
			t.Errorf("%d tries to write in ten minutes", n)
		}
		b.wantLabels(t, "away", "zone=a", readyLabel, cpuLabel)
		b.leave(false)
		b.pass(longestPause)
		b.wantLabels(t, "back", "zone=a")
		b.wantProblems(t, "back", ReasonAPIServerUnavailable, "")
		b.edit(func(n *corev1.Node) { n.Labels[LabelReady] = "true" })
		b.settle()
		b.wantLabels(t, "and watched again", "zone=a")
	})
}

// TestAPIServerAwayAtTheStart covers an agent that starts before the API server.
func TestAPIServerAwayAtTheStart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.leave(true)
		b.start(t)
		b.say(ready())
		b.pass(time.Minute)
		b.wantWrites(t, "a Node that was never seen is not written")
		b.leave(false)
		b.pass(longestPause)
		b.wantLabels(t, "back", readyLabel, cpuLabel)
	})
}

// TestRequestsThatNeverEnd: each is given up after a while, and tried again.
func TestRequestsThatNeverEnd(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"get", "patch", "watch"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				b := newBench(t)
				b.create("u1")
				b.fakeAPI.fail(verb, hang, hang)
				b.start(t)
				b.say(ready())
				b.pass(2*requestTimeout + 2*time.Second)
				b.wantLabels(t, "after two that hung", readyLabel, cpuLabel)
				b.edit(func(n *corev1.Node) { delete(n.Labels, LabelReady) })
				b.settle()
				b.wantLabels(t, "and watched", readyLabel, cpuLabel)
				b.wantProblems(t, "in all", ReasonAPIServerUnavailable, "")
			})
		})
	}
}

func TestServerErrors(t *testing.T) {
	t.Parallel()
	internal := status(apierrors.NewInternalError(errors.New("etcd has no leader")))
	html := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>please log in</html>"))
	}
	for name, how := range map[string]http.HandlerFunc{"500": internal, "reset": reset, "html": html} {
		for _, verb := range []string{"get", "patch", "watch"} {
			t.Run(verb+" "+name, func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(t *testing.T) {
					b := newBench(t)
					b.create("u1")
					b.fakeAPI.fail(verb, how, how, how)
					b.start(t)
					b.say(ready())
					b.pass(10 * time.Second)
					b.wantLabels(t, "after three of them", readyLabel, cpuLabel)
					b.edit(func(n *corev1.Node) { delete(n.Labels, LabelReady) })
					b.settle()
					b.wantLabels(t, "and watched", readyLabel, cpuLabel)
				})
			})
		}
	}
}

// TestBackBeforeTheTime: what the API server refused is tried again as soon as it has been away.
func TestBackBeforeTheTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		b.fakeAPI.fail("patch", status(forbidden()))
		b.say(ready())
		b.fakeAPI.fail("watch", status(expired()))
		b.endWatches()
		b.pass(time.Second)
		b.wantLabels(t, "though a pause of half a minute was due", readyLabel, cpuLabel)
	})
}

// TestPausesBeginAnew: after it went well, the next failure is the first.
func TestPausesBeginAnew(t *testing.T) {
	t.Parallel()
	internal := status(apierrors.NewInternalError(errors.New("etcd has no leader")))
	t.Run("writes", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			b := newBench(t)
			b.create("u1")
			b.start(t)
			b.fakeAPI.fail("patch", internal, internal, internal, internal, internal, internal)
			b.say(ready())
			b.pass(time.Minute)
			b.fakeAPI.fail("patch", internal)
			b.say(lost())
			b.pass(firstPause)
			b.wantLabels(t, "after the shortest pause")
		})
	})
	t.Run("watches", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T) {
			b := newBench(t)
			b.create("u1")
			for range 10 {
				b.fakeAPI.fail("watch", internal)
			}
			b.start(t)
			b.pass(3 * time.Minute)
			b.say(lost())
			b.settle() // the condition was written
			b.endWatches()
			b.edit(func(n *corev1.Node) { n.Labels[LabelReady] = "true" })
			b.pass(firstPause)
			b.wantLabels(t, "after the shortest pause")
		})
	})
}
