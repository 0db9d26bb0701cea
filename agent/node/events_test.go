package node

import (
	"encoding/json"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// takeEvent takes a new event, or a change of one that is there.
func (f *fakeAPI) takeEvent(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var e eventsv1.Event
	if r.Method == http.MethodPatch {
		known := false
		for _, have := range f.posted {
			if have.Name == path.Base(r.URL.Path) {
				e, known = have, true
			}
		}
		if !known || f.forgetful {
			fail(w, apierrors.NewNotFound(corev1.Resource("events"), path.Base(r.URL.Path)))
			return
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		f.t.Error(err)
	}
	f.posted = append(f.posted, e)
	answer(w, http.StatusOK, e)
}

// lastEvent gives the last event, as it is then.
func (f *fakeAPI) lastEvent() eventsv1.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.posted) == 0 {
		return eventsv1.Event{}
	}
	return f.posted[len(f.posted)-1]
}

func (f *fakeAPI) eventWrites() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.posted)
}

// What happens again and again is one object with a count, written seldom; what happens to another image is another one.
func TestEventsThatRepeatAreOneSeries(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		failed := Event{Warning: true, Reason: "Unauthorized", Action: "Pull", Image: "cpu", Note: "401"}
		for range 21 {
			b.Post(failed)
			b.pass(time.Minute)
		}
		last := b.lastEvent()
		if n := b.eventWrites(); n != 5 || last.Series == nil || last.Series.Count != 17 {
			t.Errorf("%d writes in 20 minutes, the last is %+v", n, last.Series)
		}
		if last.Reason != "Unauthorized" || last.Type != corev1.EventTypeWarning || last.Note != "401" || last.Regarding.Kind != "Node" ||
			last.Regarding.Name != nodeName || last.ReportingController != Controller || last.Namespace != "default" {
			t.Errorf("%+v", last)
		}
		first := last.Name
		other := failed
		other.Image = "gpu"
		b.Post(other)
		b.pass(0)
		if e := b.lastEvent(); e.Name == first || e.Series != nil {
			t.Errorf("of another image: %+v", e)
		}
		b.pass(time.Hour)
		b.Post(failed)
		b.pass(0)
		if e := b.lastEvent(); e.Name == first || e.Series != nil {
			t.Errorf("an hour later: %+v", e)
		}
		b.fakeAPI.mu.Lock()
		b.forgetful = true
		b.fakeAPI.mu.Unlock()
		n := b.eventWrites()
		b.Post(failed)
		b.pass(0)
		if e := b.lastEvent(); b.eventWrites() != n+1 || e.Series != nil {
			t.Errorf("when the API server has forgotten it: %+v", e)
		}
	})
}

// An API server that takes no events holds nothing else up.
func TestEventsThatCannotBeTold(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		b.create("u1")
		b.start(t)
		for range 10 * eventQueue {
			b.Post(Event{Reason: "Pulled", Note: strings.Repeat("x", 2*longestMessage)})
		}
		b.say(ready())
		b.wantLabels(t, "all the same", readyLabel, cpuLabel)
		if e := b.lastEvent(); len(e.Note) > 1024 {
			t.Errorf("the note has %d bytes, which the API server refuses", len(e.Note))
		}
	})
}
