package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPause(t *testing.T) {
	t.Parallel()
	for n, longest := range map[int]time.Duration{
		0: 200 * time.Millisecond, 1: 200 * time.Millisecond, 2: 400 * time.Millisecond, 3: 800 * time.Millisecond,
		6: 6400 * time.Millisecond, 7: 10 * time.Second, 8: 10 * time.Second, 1000: 10 * time.Second,
	} {
		seen := map[time.Duration]bool{}
		for range 200 {
			d := pause(n, false)
			if d < longest/2 || d >= longest {
				t.Fatalf("after %d failures: %v, want from %v to %v", n, d, longest/2, longest)
			}
			seen[d] = true
		}
		if len(seen) < 100 {
			t.Errorf("after %d failures: %d different pauses of 200", n, len(seen))
		}
	}
	if d := pause(1, true); d < 30*time.Second || d >= time.Minute {
		t.Errorf("what only a person can mend: %v", d)
	}
}

func TestObjectOf(t *testing.T) {
	t.Parallel()
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "7", Labels: map[string]string{
			"zone": "a", LabelReady: "true", LabelImagePrefix + "cpu": "x", "prewarm.dev/other": "not ours",
		}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "nvidia.com/gpu": resource.MustParse("2"),
		}},
	}
	want := Facts{
		Labels:    map[string]string{"zone": "a", "prewarm.dev/other": "not ours"},
		Resources: map[string]int64{"nvidia.com/gpu": 2},
	}
	got := objectOf(n)
	if diff := cmp.Diff(want, got.facts); diff != "" {
		t.Errorf("facts differ (-want +got):\n%s", diff)
	}
	if got.uid != "u" || got.version != "7" || len(got.labels) != 4 {
		t.Errorf("got %+v", got)
	}
	if empty := objectOf(&corev1.Node{}); !empty.facts.equal(Facts{}) {
		t.Errorf("an empty Node gives %+v", empty.facts)
	}
}

func TestOlderThan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version, other string
		want           bool
	}{
		{"9", "10", true},
		{"10", "9", false},
		{"10", "10", false},
		{"99999999999999999999", "100000000000000000000", true},
		{"opaque", "10", false},
		{"", "10", false},
	} {
		if got := (&object{version: c.version}).olderThan(&object{version: c.other}); got != c.want {
			t.Errorf("%q and %q: %v", c.version, c.other, got)
		}
	}
	if (&object{version: "1"}).olderThan(nil) {
		t.Error("older than nothing")
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	c := make(chan int, 1)
	for i := range 5 {
		replace(c, i)
	}
	if got := <-c; got != 4 {
		t.Errorf("got %d", got)
	}
}

func TestWaitEndsEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		since := time.Now()
		wait(t.Context(), time.Minute)
		if took := time.Since(since); took != time.Minute {
			t.Errorf("took %v", took)
		}
	})
}
