package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// says answers a watch with one event, and leaves it open.
func says(kind watch.EventType, object any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		b, _ := json.Marshal(object)
		fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", kind, b)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func expired() *apierrors.StatusError {
	return apierrors.NewResourceExpired("too old resource version")
}

func TestWatchGoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1", "zone=a")
		b.start(t)
		b.say(ready())
		if got := b.requests(); got[len(got)-1] != "patch/status " {
			t.Errorf("the last request is %q", got)
		}
		at := b.version
		b.endWatches()
		synctest.Wait()
		b.edit(func(n *corev1.Node) { delete(n.Labels, LabelReady) }) // while there is no watch
		b.pass(time.Second + settle)
		b.wantLabels(t, "what happened in between", "zone=a", readyLabel, cpuLabel)
		if want := fmt.Sprintf("watch %d", at); !contains(b.requests(), want) {
			t.Errorf("requests are %q, want one %q", b.requests(), want)
		}
		if gets := b.count("get"); gets != 1 {
			t.Errorf("the Node was read %d times", gets)
		}
	})
}

func contains(list []string, s string) bool {
	return strings.Contains("\n"+strings.Join(list, "\n")+"\n", "\n"+s+"\n")
}

// TestWatchStartsFromNow: the version of a Node that has not changed for a while is too old to watch from.
func TestWatchStartsFromNow(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		if got := strings.Join(b.requests(), ", "); got != "get , watch " {
			t.Errorf("requests are %q", got)
		}
	})
}

// TestBookmarks move the version on which a watch goes on, though the Node does not change.
func TestBookmarks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		bookmark := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "5000"}}
		b.fakeAPI.mu.Lock()
		b.version = 5000
		b.event(watch.Bookmark, bookmark)
		b.fakeAPI.mu.Unlock()
		synctest.Wait()
		b.say(ready())
		b.endWatches()
		b.pass(time.Second)
		if !contains(b.requests(), "watch 5002") { // after what was written meanwhile
			t.Errorf("requests are %q", b.requests())
		}
		b.wantLabels(t, "a bookmark is no Node", readyLabel, cpuLabel)
	})
}

// TestVersionTooOld comes as an event or as an answer, and means to read the Node anew, without a fuss.
func TestVersionTooOld(t *testing.T) {
	t.Parallel()
	gone := expired().Status()
	gone.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	for name, how := range map[string]http.HandlerFunc{"event": says(watch.Error, gone), "answer": status(expired())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				b := newBench(t)
				b.create("u1")
				b.start(t)
				b.say(ready())
				b.fakeAPI.fail("watch", how)
				b.endWatches()
				synctest.Wait()
				b.edit(func(n *corev1.Node) { delete(n.Labels, LabelReady) })
				b.pass(2 * time.Second)
				b.wantLabels(t, "read anew", readyLabel, cpuLabel)
				if gets := b.count("get"); gets != 2 {
					t.Errorf("the Node was read %d times", gets)
				}
				b.wantProblems(t, "it is none")
			})
		})
	}
}

// TestStaleWatch: an API server whose cache lags tells of a time before our own write.
func TestStaleWatch(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1", "zone=a")
		old := b.node.DeepCopy()
		b.start(t)
		b.say(ready())
		b.fakeAPI.fail("watch", status(expired()), says(watch.Added, old))
		b.endWatches()
		b.pass(time.Minute)
		b.wantLabels(t, "all along", "zone=a", readyLabel, cpuLabel)
		b.wantWrites(t, "the old Node is not answered", write)
	})
}

// TestRestoredFromABackup: versions begin again from a lower one, and what is read then counts.
func TestRestoredFromABackup(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		b.say(ready())
		b.leave(true)
		b.pass(time.Second)
		b.fakeAPI.mu.Lock()
		b.version, b.changes = 10, nil
		b.fakeAPI.mu.Unlock()
		b.create("u1", "zone=old")
		b.leave(false)
		b.pass(longestPause)
		b.wantLabels(t, "back", "zone=old", readyLabel, cpuLabel)
		b.settle()
		b.edit(func(n *corev1.Node) { delete(n.Labels, LabelReady) })
		b.wantLabels(t, "and watched", "zone=old", readyLabel, cpuLabel)
	})
}

func TestNonsenseOnTheWatch(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]http.HandlerFunc{
		"another kind": says(watch.Modified, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}}),
		"no JSON":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{{{{\n")) },
		"no event":     says("INVENTED", map[string]string{}),
		"at once over": func(http.ResponseWriter, *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				b := newBench(t)
				b.create("u1")
				b.forever("watch", how)
				b.start(t)
				b.say(ready())
				b.pass(10 * time.Minute)
				b.wantLabels(t, "in spite of it", readyLabel, cpuLabel)
				if n := b.count("watch"); n > 150 {
					t.Errorf("%d watches in ten minutes", n)
				}
				b.forever("watch", nil)
				b.pass(longestPause)
				b.edit(func(n *corev1.Node) { delete(n.Labels, LabelReady) })
				b.settle()
				b.wantLabels(t, "once it is over", readyLabel, cpuLabel)
			})
		})
	}
}

// TestForbiddenToWatch: without events the Node is looked at now and then.
func TestForbiddenToWatch(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.forever("watch", status(forbidden()))
		b.start(t)
		b.say(ready())
		b.wantLabels(t, "at once", readyLabel, cpuLabel)
		b.edit(func(n *corev1.Node) { delete(n.Labels, LabelReady) })
		b.pass(seldomPause)
		b.wantLabels(t, "now and then", readyLabel, cpuLabel)
		b.pass(time.Hour)
		if n := len(b.requests()); n > 2*125 {
			t.Errorf("%d requests in an hour", n)
		}
		b.wantProblems(t, "in all", ReasonForbidden)
	})
}

func TestRequestsSayWhoWeAre(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		var requests []*http.Request
		look := func(next http.HandlerFunc) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				requests = append(requests, r)
				next(w, r)
			}
		}
		b.forever("get", look(b.get))
		b.forever("watch", look(b.fakeAPI.watch))
		b.forever("patch", look(b.patch))
		b.start(t)
		b.say(ready())
		if len(requests) != 3 {
			t.Fatalf("%d requests", len(requests))
		}
		for _, r := range requests {
			if r.UserAgent() != "prewarm/test" || !strings.HasPrefix(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf") {
				t.Errorf("%s %s: headers %v", r.Method, r.URL, r.Header)
			}
		}
		if got := requests[2].URL.Query().Get("fieldManager"); got != "prewarm" {
			t.Errorf("field manager %q", got)
		}
		q := requests[1].URL.Query()
		if q.Get("allowWatchBookmarks") != "true" || q.Get("timeoutSeconds") < "300" || q.Get("timeoutSeconds") > "600" {
			t.Errorf("the watch asks for %v", q)
		}
	})
}
