package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prewarm-dev/prewarm/cri"
)

func TestPullOfThreeReferencesOfWhichOneIsBad(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ bad, row string }{
		"unknown":         {"r.example/nosuch:1", "r.example/nosuch:1 failed - - TIME ImageNotFound 404 Not Found (check the name and the tag)"},
		"malformed":       {"https://r.example/a:1", "https://r.example/a:1 failed - - TIME InvalidReference is a URL (leave the scheme away: r.example/a:1)"},
		"empty":           {"", `"" failed - - TIME InvalidReference is empty (write host/repository:tag)`},
		"with a line end": {"a\nb", `"a\nb" failed - - TIME InvalidReference has white space in it (write one reference without blanks)`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "r.example/a:1", "r.example/b:1")
			out := prewarm(t.Context(), f, "pull", "r.example/a:1", tc.bad, "r.example/b:1")
			if out.code != exitFailed {
				t.Errorf("exit code %d, want %d", out.code, exitFailed)
			}
			var names []string
			for _, p := range f.pulls {
				names = append(names, p.Name)
			}
			if diff := cmp.Diff([]string{"r.example/a:1", "r.example/b:1"}, names); diff != "" {
				t.Errorf("pulled (-want +got):\n%s", diff)
			}
			_, table, _ := strings.Cut(out.stdout, "\n\n")
			rows := strings.Split(strings.TrimSpace(table), "\n")
			if len(rows) != 4 || !strings.HasPrefix(rows[1], "r.example/a:1") || !strings.Contains(rows[3], "pulled") {
				t.Fatalf("table:\n%s", table)
			}
			words := strings.Fields(rows[2])
			words[4] = "TIME"
			if got := strings.Join(words, " "); got != tc.row {
				t.Errorf("row of the bad one:\n%s\nwant\n%s", got, tc.row)
			}
			if strings.Count(out.stderr, "\n") != 1 || !strings.HasPrefix(out.stderr, "prewarm: 1 of 3 images failed: ") {
				t.Errorf("stderr: %q", out.stderr)
			}
			if !f.closed {
				t.Error("the connection stays open")
			}
		})
	}
}

func TestPullOfOneReferenceTellsTheErrorOnce(t *testing.T) {
	t.Parallel()
	out := prewarm(t.Context(), newFake(t), "pull", "r.example/nosuch:1")
	want := "prewarm: r.example/nosuch:1: ImageNotFound: 404 Not Found (check the name and the tag)\n"
	if out.code != exitFailed || out.stderr != want {
		t.Errorf("exit code %d, stderr %q, want %d, %q", out.code, out.stderr, exitFailed, want)
	}
	if want := "resolving r.example/nosuch:1\nfailed r.example/nosuch:1 reason=ImageNotFound\n"; out.stdout != want {
		t.Errorf("stdout %q, want %q", out.stdout, want)
	}
}

func TestPullWritesLinesWhereThereIsNoTerminal(t *testing.T) {
	t.Parallel()
	out := prewarm(t.Context(), newFake(t, "r.example/a:1"), "pull", "r.example/a:1")
	if out.code != exitOK || out.stderr != "" {
		t.Errorf("exit code %d, stderr %q", out.code, out.stderr)
	}
	var words []string
	for line := range strings.Lines(out.stdout) {
		word, _, _ := strings.Cut(line, " ")
		words = append(words, word)
	}
	want := []string{"resolving", "verifying", "pulling", "layer", "layer", "unpacking", "layer", "layer", "verifying", "ready"}
	if diff := cmp.Diff(want, words); diff != "" {
		t.Errorf("first words (-want +got):\n%s\n%s", diff, out.stdout)
	}
}

// objects reads JSON lines.
func objects(t *testing.T, out string) []cri.Progress {
	t.Helper()
	var ps []cri.Progress
	for line := range strings.Lines(out) {
		var p cri.Progress
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&p); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		ps = append(ps, p)
	}
	return ps
}

func TestPullWritesOneJSONObjectPerChange(t *testing.T) {
	t.Parallel()
	f := newFake(t, "r.example/a:1", "r.example/b:1", "r.example/c:1")
	f.present["r.example/b:1"] = true
	f.pull["r.example/c:1"] = failure(cri.ReasonDiskFull, "r.example/c:1", "no space left on device", "make room")
	out := prewarm(t.Context(), f, "pull", "-o", "json", "r.example/a:1", "r.example/b:1", "r.example/c:1", "A")
	if out.code != exitFailed {
		t.Errorf("exit code %d", out.code)
	}
	if strings.Count(out.stderr, "\n") != 2 || !strings.Contains(out.stderr, "make room") || !strings.Contains(out.stderr, "lower case: a") {
		t.Errorf("stderr: %q", out.stderr)
	}
	last := map[string]cri.Progress{}
	for _, p := range objects(t, out.stdout) {
		before := last[p.Reference]
		if p.Reference != "A" && !cri.CanMove(before.Phase, p.Phase) {
			t.Errorf("%s: from %q to %q", p.Reference, before.Phase, p.Phase)
		}
		if p.Bytes.Present+p.Bytes.Fetched < before.Bytes.Present+before.Bytes.Fetched {
			t.Errorf("%s: bytes %+v after %+v", p.Reference, p.Bytes, before.Bytes)
		}
		if p.Phase != cri.PhasePulling && p.Phase != cri.PhaseUnpacking && (p.Rate != 0 || p.ETASeconds != nil) {
			t.Errorf("%s: a rate in phase %s", p.Reference, p.Phase)
		}
		last[p.Reference] = p
	}
	type ending struct {
		Phase    cri.Phase
		Reason   cri.Reason
		Message  string
		Verified string
		Fetched  int64
		Present  int64
		Ready    bool
	}
	want := map[string]ending{
		"r.example/a:1": {Phase: cri.PhaseReady, Verified: cri.VerifiedSnapshots, Fetched: 2000, Ready: true},
		"r.example/b:1": {Phase: cri.PhaseReady, Verified: cri.VerifiedSnapshots, Message: "already present", Present: 2000, Ready: true},
		"r.example/c:1": {Phase: cri.PhaseFailed, Reason: cri.ReasonDiskFull, Message: "no space left on device (make room)", Fetched: 1000},
		"A": {
			Phase: cri.PhaseFailed, Reason: cri.ReasonInvalidReference,
			Message: "invalid reference format: repository name (library/A) must be lowercase (repositories are lower case: a)",
		},
	}
	got := map[string]ending{}
	for ref, p := range last {
		got[ref] = ending{p.Phase, p.Reason, p.Message, p.Verified, p.Bytes.Fetched, p.Bytes.Present, !p.ReadyAt.IsZero()}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("last objects (-want +got):\n%s", diff)
	}
}

func TestAPresentImageIsNotPulled(t *testing.T) {
	t.Parallel()
	f := newFake(t, "r.example/a:1")
	f.present["r.example/a:1"] = true
	out := prewarm(t.Context(), f, "pull", "r.example/a:1")
	if out.code != exitOK || len(f.pulls) != 0 || !strings.Contains(out.stdout, "already present") {
		t.Errorf("exit code %d, %d pulls, stdout %q", out.code, len(f.pulls), out.stdout)
	}
}

func TestWhatVerifySaysDecidesWhetherToPull(t *testing.T) {
	t.Parallel()
	for reason, pulls := range map[cri.Reason]int{
		cri.ReasonNotPresent: 1, cri.ReasonNotUnpacked: 1, cri.ReasonOtherImage: 1,
		cri.ReasonRuntimeUnavailable: 0, cri.ReasonCanceled: 0,
	} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "r.example/a:1")
			f.verify["r.example/a:1"] = failure(reason, "r.example/a:1", "cause", "")
			out := prewarm(t.Context(), f, "pull", "r.example/a:1")
			if len(f.pulls) != pulls {
				t.Errorf("%d pulls, want %d", len(f.pulls), pulls)
			}
			// The fake cannot prove it after the pull either: that is a failure, whatever the pull said.
			if out.code != exitFailed || !strings.Contains(out.stderr, string(reason)) {
				t.Errorf("exit code %d, stderr %q", out.code, out.stderr)
			}
		})
	}
}

func TestPullIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := newFake(t, "r.example/a:1", "r.example/b:1")
	f.pulling = cancel
	out := prewarm(ctx, f, "pull", "r.example/a:1", "r.example/b:1")
	if out.code != exitInterrupted || len(f.pulls) != 1 {
		t.Errorf("exit code %d after %d pulls", out.code, len(f.pulls))
	}
	if want := "prewarm: interrupted: what was fetched is kept, and the next pull goes on from there\n"; out.stderr != want {
		t.Errorf("stderr %q, want %q", out.stderr, want)
	}
	for _, want := range []string{"failed r.example/a:1 reason=Canceled\n", "skipped r.example/b:1\n", "not tried"} {
		if !strings.Contains(out.stdout, want) {
			t.Errorf("stdout lacks %q:\n%s", want, out.stdout)
		}
	}
}

// full is a disk without room.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"pull", "r.example/a:1"},
		{"pull", "-o", "json", "r.example/a:1"},
		{"pull", "r.example/a:1", "r.example/a:1"},
		{"plan", "r.example/a:1"},
		{"plan", "-o", "json", "r.example/a:1"},
		{"version"},
		{"version", "-o", "json"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "r.example/a:1")
			var stderr bytes.Buffer
			a := app{
				stdout: full{}, stderr: &stderr, getenv: func(string) string { return "" },
				connect: func(context.Context, cri.Options) (containerRuntime, error) { return f, nil },
			}
			if code := a.run(t.Context(), args); code != exitFailed || !strings.Contains(stderr.String(), errFull.Error()) {
				t.Errorf("exit code %d, stderr %q", code, stderr.String())
			}
		})
	}
}
