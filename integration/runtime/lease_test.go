package runtime_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/cri"
	"github.com/prewarm-dev/prewarm/integration/harness"
)

// leases gives containerd's leases by name, each with its labels.
func (n *node) leases(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(n.ctr(t, "leases", "ls")) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "ID" {
			out[f[0]] = f[len(f)-1]
		}
	}
	return out
}

// While a pull runs there is a lease of ours with an end; it stays when the pull is broken off and goes when it has ended
// well. Leases of others stay as they are.
func TestTheLeaseOfAPull(t *testing.T) {
	r := prepareResume(t, harness.ContainerdOptions{})
	r.ctr(t, "leases", "create", "--id", "other/lease", "--expires", "1h", "owner=somebody")
	foreign := r.leases(t)["other/lease"]

	var during map[string]string
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	last, _ := r.breakOff(ctx, t, func() { during = r.leases(t); cancel() })
	labels := during["prewarm/resume"]
	if !strings.Contains(labels, "prewarm.dev/owner=resume") || len(during) != 2 {
		t.Errorf("leases while the pull runs: %v, want ours, prewarm/resume, and the other", during)
	}
	_, expiry, _ := strings.Cut(labels, "containerd.io/gc.expire=")
	expiry, _, _ = strings.Cut(expiry, ",")
	if end, err := time.Parse(time.RFC3339, expiry); err != nil || time.Until(end) < 12*time.Hour || time.Until(end) > 72*time.Hour {
		t.Errorf("our lease ends at %q, want about two days from now", expiry)
	}
	if after := r.leases(t); after["prewarm/resume"] == "" {
		t.Errorf("the lease is gone with the pull that was broken off: %v", after)
	}
	r.goOn(t, last)
	if after := r.leases(t); len(after) != 1 || after["other/lease"] != foreign {
		t.Errorf("leases afterwards: %v, want the other alone, %s", after, foreign)
	}
}

// A pull for a reference alone has a lease too, whose name does not depend on who pulls; it goes with the pull.
func TestTheLeaseOfAReference(t *testing.T) {
	n := newNode(t, harness.ContainerdOptions{})
	_, img := n.push(t, "lab/lease:1", layers(random(96, 100*kib)))
	var during map[string]string
	for _, err := range n.cri.Pull(deadline(t), img, cri.PullOptions{Interval: often}) {
		if err != nil {
			t.Fatal(err)
		}
		if during == nil {
			during = n.leases(t)
		}
	}
	names := slices.Collect(maps.Keys(during))
	if len(names) != 1 || !strings.HasPrefix(names[0], "prewarm/reference-") {
		t.Errorf("leases while the pull runs: %v, want one of ours", names)
	}
	if after := n.leases(t); len(after) != 0 {
		t.Errorf("leases afterwards: %v, want none", after)
	}
}

// What was fetched for a pull that nobody resumes is garbage once its lease is gone: disk use returns to what it was.
func TestAnAbandonedPullLeavesNothing(t *testing.T) {
	r := prepareResume(t, harness.ContainerdOptions{})
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	_, err := r.breakOff(ctx, t, cancel)
	if cri.ReasonOf(err) != cri.ReasonCanceled {
		t.Fatal(err)
	}
	r.ctr(t, "leases", "rm", "--sync", "prewarm/resume")
	if blobs := r.ctr(t, "content", "ls", "-q"); strings.TrimSpace(blobs) != "" || r.ingest(t) {
		t.Errorf("left are blobs %s and downloads %s", blobs, r.ctr(t, "content", "active"))
	}
}

// A lease that is about to end is replaced by one that keeps the same, so that a download that is tried for days, or runs long,
// is not collected.
func TestALeaseThatEndsSoonIsReplaced(t *testing.T) {
	r := prepareResume(t, harness.ContainerdOptions{})
	r.ctr(t, "leases", "create", "--id", "prewarm/resume", "--expires", "20h", "prewarm.dev/owner=resume")
	first, cancel := context.WithCancel(deadline(t))
	defer cancel()
	last, _ := r.breakOff(first, t, cancel)
	left := r.leases(t)
	if len(left) != 1 || left["prewarm/resume"] != "" {
		t.Fatalf("leases after a pull that was broken off: %v, want a new one alone", left)
	}
	for id, labels := range left {
		if !strings.HasPrefix(id, "prewarm/resume@") || !strings.Contains(labels, "prewarm.dev/owner=resume") {
			t.Errorf("lease %s with %s", id, labels)
		}
	}
	// What it has inherited survives a garbage collection.
	r.ctr(t, "leases", "create", "--id", "prewarm/soon", "--expires", "1s", "x=y")
	for id := range left {
		r.ctr(t, "leases", "create", "--id", "prewarm/older", "--expires", "20h", "prewarm.dev/owner=other")
		r.ctr(t, "leases", "rm", "--sync", "prewarm/older")
		if now := r.leases(t); now[id] == "" {
			t.Errorf("the lease is gone: %v", now)
		}
	}
	r.ctr(t, "leases", "rm", "prewarm/soon")
	r.goOn(t, last)
	if after := r.leases(t); len(after) != 0 {
		t.Errorf("leases afterwards: %v, want none", after)
	}
}
