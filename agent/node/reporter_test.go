package node

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

func TestNothingIsTouchedBeforeItIsKnown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1", readyLabel, cpuLabel, "image.prewarm.dev/old=x", "zone=a")
		b.start(t)
		b.wantLabels(t, "at the start", readyLabel, cpuLabel, "image.prewarm.dev/old=x", "zone=a")
		b.say(unknown())
		b.wantLabels(t, "once the images are known", readyLabel, cpuLabel, "zone=a")
		b.say(lost())
		b.wantLabels(t, "once it is known that they are not there", "zone=a")
		b.wantWrites(t, "in all", write, write)
		b.wantProblems(t, "in all")
	})
}

// TestRestartWithAnEmptyStore: the label of the time before goes first of all.
func TestRestartWithAnEmptyStore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1", readyLabel, cpuLabel)
		b.start(t)
		since := time.Now()
		b.say(lost())
		b.wantLabels(t, "after the first look")
		if took := time.Since(since); took > 0 || len(b.sent()) != 1 {
			t.Errorf("took %v and %d writes", took, len(b.sent()))
		}
	})
}

func TestRestartWithEverythingThere(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1", readyLabel, cpuLabel)
		b.start(t)
		b.say(unknown())
		b.say(ready())
		b.settle()
		b.wantLabels(t, "all along", readyLabel, cpuLabel)
		b.wantWrites(t, "in all")
	})
}

func TestLabelsFollowTheState(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1", "zone=a")
		b.start(t)
		for range 3 {
			b.say(ready())
			b.wantLabels(t, "ready", "zone=a", readyLabel, cpuLabel)
			b.say(lost())
			b.wantLabels(t, "lost", "zone=a")
		}
		b.wantWrites(t, "in all", write, write, write, write, write, write)
		want := `{"metadata":{"labels":{"image.prewarm.dev/cpu":"0123456789ab","prewarm.dev/image-ready":"true"},"uid":"u1"}}`
		if b.sent()[0] != want {
			t.Errorf("the first write is %s\nwant %s", b.sent()[0], want)
		}
		want = `{"metadata":{"labels":{"image.prewarm.dev/cpu":null,"prewarm.dev/image-ready":null},"uid":"u1"}}`
		if b.sent()[1] != want {
			t.Errorf("the second write is %s\nwant %s", b.sent()[1], want)
		}
	})
}

// TestIdle lets a day pass with the kubelet's heartbeats and the ends of watches.
func TestIdle(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		b.say(ready())
		for range 24 * 12 {
			b.pass(5 * time.Minute)
			b.edit(func(n *corev1.Node) { n.Annotations = map[string]string{"heartbeat": time.Now().String()} })
			b.say(ready())
			b.endWatches()
		}
		b.wantWrites(t, "in a day", write)
		if gets := b.count("get"); gets != 1 {
			t.Errorf("the Node was read %d times; a watch that ends is to be taken up where it ended", gets)
		}
		b.wantProblems(t, "in a day")
	})
}

// TestCorrections: what somebody else does to our labels is undone, at once where it happens once.
func TestCorrections(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		state State
		how   func(labels map[string]string)
		want  []string
	}{
		"claimed by hand on a cold node": {lost(), func(l map[string]string) { l[LabelReady] = "true" }, nil},
		"denied by hand":                 {ready(), func(l map[string]string) { l[LabelReady] = "false" }, []string{readyLabel, cpuLabel}},
		"removed":                        {ready(), func(l map[string]string) { clear(l) }, []string{readyLabel, cpuLabel}},
		"another digest":                 {ready(), func(l map[string]string) { l[LabelImagePrefix+"cpu"] = "beef" }, []string{readyLabel, cpuLabel}},
		"another image":                  {ready(), func(l map[string]string) { l[LabelImagePrefix+"gpu"] = "beef" }, []string{readyLabel, cpuLabel}},
		"others' labels":                 {ready(), func(l map[string]string) { l["zone"] = "b" }, []string{readyLabel, cpuLabel, "zone=b"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				b := newBench(t)
				b.create("u1")
				b.start(t)
				b.say(c.state)
				b.settle()
				b.edit(func(n *corev1.Node) { c.how(n.Labels) })
				b.wantLabels(t, "at once", c.want...)
			})
		})
	}
}

// TestFight has somebody who undoes all that we write: we keep at it, once a second.
func TestFight(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		b.say(ready())
		since := time.Now()
		for time.Since(since) < time.Minute {
			b.edit(func(n *corev1.Node) { delete(n.Labels, LabelReady) })
			b.pass(50 * time.Millisecond)
		}
		if n := len(b.sent()); n < 50 || n > 61 {
			t.Errorf("%d writes in a minute", n)
		}
		b.say(lost())
		b.wantLabels(t, "a new state does not wait")
	})
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		b.fakeAPI.fail("patch", status(conflict()))
		b.say(ready())
		b.wantLabels(t, "after one conflict, at once", readyLabel, cpuLabel)
		b.wantWrites(t, "after one conflict", "node conflict", write)

		b.fakeAPI.fail("patch", status(conflict()), status(conflict()))
		b.say(lost())
		b.wantLabels(t, "after two conflicts", readyLabel, cpuLabel)
		b.wantProblems(t, "after two conflicts", ReasonConflict)
		b.pass(time.Second)
		b.wantLabels(t, "a little later")
		b.wantProblems(t, "a little later", ReasonConflict, "")
	})
}

// TestConflictThatDoesOurWork: what another writer has just written needs no write of ours.
func TestConflictThatDoesOurWork(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1", readyLabel, cpuLabel)
		b.start(t)
		b.fakeAPI.fail("patch", func(w http.ResponseWriter, r *http.Request) {
			b.edit(func(n *corev1.Node) { clear(n.Labels) })
			status(conflict())(w, r)
		})
		b.say(lost())
		b.settle()
		b.wantWrites(t, "in all", "node conflict")
	})
}

// TestAnotherNodeOfThatName: it came between our look and our write, and is looked at before it is written.
func TestAnotherNodeOfThatName(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		b.forever("watch", hang)
		b.endWatches() // so that the change is not heard of
		synctest.Wait()
		b.create("u2", "zone=b", "image.prewarm.dev/old=x")
		b.say(ready())
		b.wantLabels(t, "at once", "zone=b", readyLabel, cpuLabel)
		b.wantWrites(t, "in all", "node conflict", write)
		for i, uid := range []string{"u1", "u2"} {
			if !strings.Contains(b.sent()[i], `"uid":"`+uid+`"`) {
				t.Errorf("write %d is %s", i, b.sent()[i])
			}
		}
	})
}

func TestNodeGoesAndComesBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		b.say(ready())
		b.remove()
		synctest.Wait()
		b.wantProblems(t, "gone", ReasonNodeNotFound)
		b.say(lost())
		b.pass(10 * time.Minute)
		b.say(ready())
		b.wantWrites(t, "while it is gone", write)
		b.create("u2")
		b.wantLabels(t, "back", readyLabel, cpuLabel)
		b.wantProblems(t, "back", ReasonNodeNotFound, "")
	})
}

// TestNodeThatDoesNotExistYet is waited for, also when somebody deletes it in between.
func TestNodeThatDoesNotExistYet(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.start(t)
		b.say(ready())
		b.pass(time.Hour)
		b.wantProblems(t, "for an hour", ReasonNodeNotFound)
		if n := len(b.requests()); n > 20 {
			t.Errorf("%d requests in an hour", n)
		}
		b.create("u1")
		b.wantLabels(t, "at once", readyLabel, cpuLabel)
	})
}

// TestNodeVanishesUnderAWrite: the write is the first to see it.
func TestNodeVanishesUnderAWrite(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		b.fakeAPI.fail("patch", status(apierrors.NewNotFound(corev1.Resource("nodes"), nodeName)))
		b.say(ready())
		b.wantWrites(t, "gone", "node missing")
		b.wantProblems(t, "gone", ReasonNodeNotFound)
		b.edit(func(n *corev1.Node) { n.Labels["zone"] = "b" })
		b.wantLabels(t, "back", "zone=b", readyLabel, cpuLabel)
		b.wantProblems(t, "back", ReasonNodeNotFound, "")
	})
}

// TestTheEnd: labels stay, also when the end comes in the middle of a write.
func TestTheEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		b.say(ready())
		b.forever("patch", hang)
		b.say(lost())
		b.end(t)
		b.wantLabels(t, "after the end", readyLabel, cpuLabel)
		b.wantProblems(t, "the end is none")
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		if err := b.Check(t.Context()); !errors.Is(err, ErrNodeNotFound) || !strings.Contains(err.Error(), "NODE_NAME") {
			t.Errorf("no Node: %v", err)
		}
		b.create("u1")
		if err := b.Check(t.Context()); err != nil {
			t.Errorf("all is well: %v", err)
		}
		b.fakeAPI.fail("get", status(forbidden()))
		if err := b.Check(t.Context()); !errors.Is(err, ErrForbidden) {
			t.Errorf("forbidden: %v", err)
		}
		b.leave(true)
		if err := b.Check(t.Context()); !errors.Is(err, ErrAPIServerUnavailable) {
			t.Errorf("away: %v", err)
		}
	})
}

func TestConfigThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	_, err := NewReporter(Options{Config: &rest.Config{Host: "://"}, Node: nodeName, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "API server at ://") {
		t.Errorf("got %v", err)
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1", "zone=a", readyLabel)
		b.start(t)
		next := func(what string, want ...Facts) {
			t.Helper()
			synctest.Wait()
			var got []Facts
			for more := true; more; {
				select {
				case f := <-b.Facts():
					got = append(got, f)
				default:
					more = false
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: facts differ (-want +got):\n%s", what, diff)
			}
		}
		zone := func(z string) Facts {
			return Facts{Labels: map[string]string{"zone": z}, Resources: map[string]int64{}}
		}
		next("at first, without our labels", zone("a"))
		b.say(ready())
		b.edit(func(n *corev1.Node) { n.Status.Allocatable = corev1.ResourceList{"cpu": quantity(4)} })
		next("nothing that matters has changed")
		for i := range 10 {
			b.edit(func(n *corev1.Node) { n.Labels["zone"] = strconv.Itoa(i) })
		}
		next("who is late gets the newest", zone("9"))
		b.edit(func(n *corev1.Node) { n.Status.Allocatable["nvidia.com/gpu"] = quantity(1) })
		gpu := zone("9")
		gpu.Resources["nvidia.com/gpu"] = 1
		next("a device plugin has registered", gpu)
		b.remove()
		next("gone")
		b.create("u2", "zone=b")
		next("back as another", zone("b"))
	})
}
