package view

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/cri"
)

// onTerminal runs a test with bars on a terminal, which has had a prompt before.
func onTerminal(t *testing.T, width, height, images int, f func(t *testing.T, v *vt, b *Bars)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := newVT(width, height)
		if _, err := v.Write([]byte("$ prewarm pull\n")); err != nil {
			t.Fatal(err)
		}
		b, err := NewBars(v, v.size, false, images)
		if err != nil {
			t.Fatal(err)
		}
		f(t, v, b)
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// frames lets the bars be drawn.
func frames() {
	time.Sleep(2 * refresh)
	synctest.Wait()
}

func result(outcome Outcome, reference string, took time.Duration) Result {
	p := pulling(layer(1, cri.LayerDone, 500, 1000))
	p.Image, p.Reference = reference, reference
	return Result{Progress: p, Outcome: outcome, Took: took}
}

func TestBarsAreDrawnInPlace(t *testing.T) {
	t.Parallel()
	onTerminal(t, 80, 24, 2, func(t *testing.T, v *vt, b *Bars) {
		t.Helper()
		for n := range int64(20) {
			b.Show(pulling(layer(1, cri.LayerFetching, 50*n, 1000), layer(2, cri.LayerWaiting, 0, 1000)))
			frames()
		}
		want := `$ prewarm pull
[1/2] registry.example/team/app:1.0  sha256:6105d6cc76af
  000000000001  1.00 kB  fetching   [===========> ]   950 B  95%
  000000000002  1.00 kB  waiting    [              ]
  total         2.00 kB  pulling    [======>       ]  47%
`
		want = strings.Replace(want, "[===========> ]", "[============> ]", 1)
		if diff := cmp.Diff(want, v.text()); diff != "" {
			t.Errorf("screen (-want +got):\n%s", diff)
		}
		if _, err := fmt.Fprintln(b, `level=WARN msg="something"`); err != nil {
			t.Errorf("a log line: %v", err)
		}
		b.End(result(Pulled, "r.example/a:1", 3*time.Second))
		frames()
		b.Show(cri.Progress{Reference: "r.example/b:1", Phase: cri.PhaseResolving})
		time.Sleep(3 * time.Second)
		frames()
		want = `$ prewarm pull
level=WARN msg="something"
[1/2] r.example/a:1  pulled  sha256:6105d6cc76af  1.00 kB, 500 B fetched in 3.0s
[2/2] r.example/b:1
  resolving  3s
`
		if diff := cmp.Diff(want, v.text()); diff != "" {
			t.Errorf("screen (-want +got):\n%s", diff)
		}
	})
}

func TestBarsLeaveOnlyResults(t *testing.T) {
	t.Parallel()
	var v *vt
	onTerminal(t, 80, 24, 1, func(_ *testing.T, terminal *vt, b *Bars) {
		v = terminal
		b.Show(midway())
		frames()
		r := result(Failed, ref, time.Second)
		r.Progress.Reason = cri.ReasonDiskFull
		b.End(r)
	})
	if want := "$ prewarm pull\nregistry.example/team/app:1.0  failed  DiskFull\n"; v.text() != want {
		t.Errorf("screen %q, want %q", v.text(), want)
	}
}

func TestBarsOfManyLayersDoNotScroll(t *testing.T) {
	t.Parallel()
	onTerminal(t, 80, 10, 1, func(t *testing.T, v *vt, b *Bars) {
		t.Helper()
		var top int
		for round := range int64(60) {
			var layers []cri.LayerProgress
			for n := range int64(60) {
				state, fetched := cri.LayerWaiting, int64(0)
				if n < round {
					state, fetched = cri.LayerFetching, 10
				}
				layers = append(layers, layer(int(n), state, fetched, 100))
			}
			b.Show(pulling(layers...))
			frames()
			if round == 0 {
				top = v.top()
			}
			if v.top() != top {
				t.Fatalf("round %d: the screen has scrolled from %d to %d:\n%s", round, top, v.top(), v.text())
			}
		}
	})
}

func TestBarsSurviveAnotherSizeOfTheTerminal(t *testing.T) {
	t.Parallel()
	onTerminal(t, 120, 24, 1, func(t *testing.T, v *vt, b *Bars) {
		t.Helper()
		b.Show(midway())
		frames()
		for _, size := range [][2]int{{60, 24}, {45, 24}, {200, 24}, {60, 16}, {120, 24}, {30, 5}} {
			v.resize(size[0], size[1])
			frames()
			c := Canvas{Width: size[0], Height: size[1], Now: time.Now(), Since: time.Now()}
			want := "$ prewarm pull\n" + strings.Join(Frame(midway(), c), "\n") + "\n"
			want, got := ages(want), ages(v.text())
			if size[1] == 5 { // too low for the frame before it, whose top is out of reach: the new one is whole
				if _, frame, _ := strings.Cut(want, "\n"); !strings.HasSuffix(got, "\n"+frame) {
					t.Errorf("%d×%d: screen:\n%s\nwant at its end:\n%s", size[0], size[1], got, frame)
				}
				break
			}
			if got != want {
				t.Errorf("%d×%d: screen:\n%s\nwant:\n%s", size[0], size[1], got, want)
			}
		}
	})
}

// ages takes out what depends on the time.
func ages(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if before, _, ok := strings.Cut(l, "unpacking  "); ok {
			lines[i] = before + "unpacking"
		}
	}
	return strings.Join(lines, "\n")
}

func TestWhatDoesNotChangeIsNotDrawnAgain(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := &console{out: &out, size: func() (int, int, error) { return 80, 24, nil }}
	for range 3 {
		if _, err := c.ReadFrom(strings.NewReader("one\ntwo\n")); err != nil {
			t.Fatal(err)
		}
		if err := c.Flush(2); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "one\ntwo\n" {
		t.Errorf("written: %q", out.String())
	}
}

func TestATerminalWithoutASizeGetsADefault(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]SizeFunc{
		"zero":  func() (int, int, error) { return 0, 0, nil },
		"error": func() (int, int, error) { return 1, 1, errors.New("gone") },
	} {
		if w, h := f.measure(); w != 80 || h != 24 {
			t.Errorf("%s: %d×%d", name, w, h)
		}
	}
}

// broken is a terminal that has gone away.
type broken struct{}

var errBroken = errors.New("input/output error")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestBarsTellThatTheTerminalHasGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBars(broken{}, func() (int, int, error) { return 80, 24, nil }, false, 1)
		if err != nil {
			t.Fatal(err)
		}
		b.Show(midway())
		frames()
		b.End(result(Pulled, ref, time.Second)) // must not hang
		if err := b.Close(); !errors.Is(err, errBroken) {
			t.Errorf("close: %v, want %v", err, errBroken)
		}
	})
}

func TestSummary(t *testing.T) {
	t.Parallel()
	unseen := result(Pulled, ref, 61*time.Second)
	unseen.Progress.Detail = cri.DetailUnavailable
	for want, r := range map[string]Result{
		ref + "  pulled  sha256:6105d6cc76af  1.00 kB, bytes unknown in 1m01s": unseen,
		ref + "  already present  sha256:6105d6cc76af  1.00 kB":                result(Present, ref, 0),
		ref + "  not tried": result(NotTried, ref, 0),
	} {
		for width, want := range map[int]string{
			100: want, cells(want): want, cells(want) - 1: strings.Replace(want, "sha256:6105d6cc76af  ", "", 1),
		} {
			if got := Summary(r, width, false); got != want {
				t.Errorf("%d cells: %q, want %q", width, got, want)
			}
		}
	}
	if got := Summary(result(Present, ref, 0), 76, true); !strings.Contains(got, "\x1b[32malready present\x1b[0m  sha256") {
		t.Errorf("in colours: %q", got)
	}
}
