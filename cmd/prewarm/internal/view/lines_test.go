package view

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/cri"
)

func TestLinesOfAPull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := NewLines(&out)
		l.Show(cri.Progress{Reference: ref, Phase: cri.PhaseResolving})
		first := pulling(layer(1, cri.LayerDone, 1000, 1000), layer(2, cri.LayerWaiting, 0, 2_000_000))
		first.Bytes = cri.Bytes{Total: 2_001_000, Present: 1000}
		l.Show(first)
		for n := range int64(24) { // more than five seconds
			p := pulling(layer(1, cri.LayerDone, 1000, 1000), layer(2, cri.LayerFetching, 50_000*n, 2_000_000))
			eta := 8.0
			p.Bytes, p.Rate, p.ETASeconds = cri.Bytes{Total: 2_001_000, Present: 1000, Fetched: 50_000 * n}, 200_000, &eta
			l.Show(p)
			time.Sleep(240 * time.Millisecond) // not when a total line is due
		}
		last := pulling(layer(1, cri.LayerDone, 1000, 1000), layer(2, cri.LayerUnpacking, 2_000_000, 2_000_000))
		last.Bytes = cri.Bytes{Total: 2_001_000, Present: 1000, Fetched: 2_000_000}
		last.Phase = cri.PhaseUnpacking
		l.Show(last)
		time.Sleep(11 * time.Second) // nothing changes, and it is seen to be alive
		r := Result{Progress: last, Outcome: Pulled, Took: 17 * time.Second}
		l.End(r)
		time.Sleep(time.Minute) // and nothing more is told
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		d := last.Digest.String()
		want := `resolving REF
pulling REF digest=` + d + ` size=2.00MB present=1.00kB layers=2 done=1
layer REF n=2/2 digest=sha256:000000000002 state=fetching size=2.00MB
total REF state=pulling percent=50 here=1.00MB size=2.00MB rate=200kB/s left=8s done=1/2 for=5s
unpacking REF
layer REF n=2/2 digest=sha256:000000000002 state=unpacking size=2.00MB
total REF state=unpacking done=1/2 for=4s
total REF state=unpacking done=1/2 for=9s
ready REF digest=` + d + ` size=2.00MB fetched=2.00MB time=17s
`
		if diff := cmp.Diff(strings.ReplaceAll(want, "REF", ref), out.String()); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

func TestLinesOfARuntimeThatShowsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := NewLines(&out)
		p := cri.Progress{Reference: ref, Digest: "sha256:abc", Phase: cri.PhasePulling, Detail: cri.DetailUnavailable, Bytes: cri.Bytes{Total: 1000}}
		l.Show(p)
		time.Sleep(6 * time.Second)
		l.End(Result{Progress: p, Outcome: Pulled, Took: 6 * time.Second})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		want := `pulling REF digest=sha256:abc size=1.00kB progress=unavailable
total REF state=pulling for=5s
ready REF digest=sha256:abc size=1.00kB time=6.0s
`
		if diff := cmp.Diff(strings.ReplaceAll(want, "REF", ref), out.String()); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}

func TestResultLines(t *testing.T) {
	t.Parallel()
	failed := result(Failed, ref, 0)
	failed.Progress.Reason = cri.ReasonImageNotFound
	present := result(Present, ref, 0)
	for want, r := range map[string]Result{
		"failed " + ref + " reason=ImageNotFound": failed,
		"skipped " + ref: result(NotTried, ref, 0),
		"ready " + ref + " digest=" + present.Progress.Digest.String() + " size=1.00kB already present": present,
	} {
		if got := resultLine(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestALayerHasALineWheneverItsStateChanges(t *testing.T) {
	t.Parallel()
	before := pulling(layer(1, cri.LayerFetching, 5, 10), layer(2, cri.LayerWaiting, 0, 10))
	same := pulling(layer(1, cri.LayerFetching, 9, 10), layer(2, cri.LayerWaiting, 0, 10))
	if got := layerLines(before, same); len(got) != 0 {
		t.Errorf("more bytes in the same state: %q", got)
	}
	both := pulling(layer(1, cri.LayerDone, 10, 10), layer(2, cri.LayerFetching, 1, 10))
	if got := layerLines(before, both); len(got) != 2 || !strings.Contains(got[0], "n=1/2") || !strings.Contains(got[0], "state=done") {
		t.Errorf("two changes: %q", got)
	}
	resumed := pulling(layer(1, cri.LayerDone, 10, 10), layer(2, cri.LayerFetching, 1, 10))
	if got := layerLines(cri.Progress{}, resumed); len(got) != 1 || !strings.Contains(got[0], "n=2/2") {
		t.Errorf("at the beginning: %q", got)
	}
}

func TestEveryLineIsWordReferencePairs(t *testing.T) {
	t.Parallel()
	p := midway()
	lines := append(layerLines(cri.Progress{}, p), phaseLine(p), totalLine(p, time.Minute), resultLine(result(Pulled, ref, time.Second)))
	for _, line := range lines {
		words := strings.Split(line, " ")
		if words[1] != ref {
			t.Errorf("second word of %q is not the reference", line)
		}
		for _, w := range words[2:] {
			if key, value, ok := strings.Cut(w, "="); !ok || key == "" || value == "" {
				t.Errorf("%q in %q is no key=value", w, line)
			}
		}
	}
}

func TestLinesAndJSONTellThatTheyCouldNotWrite(t *testing.T) {
	t.Parallel()
	l := NewLines(broken{})
	l.Show(midway())
	if err := l.Close(); !errors.Is(err, errBroken) {
		t.Errorf("lines: %v", err)
	}
	j := NewJSON(broken{})
	j.Show(midway())
	if err := j.Close(); !errors.Is(err, errBroken) {
		t.Errorf("JSON: %v", err)
	}
}
