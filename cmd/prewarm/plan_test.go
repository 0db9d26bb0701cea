package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/cri"
)

func TestPlanOfSeveralReferences(t *testing.T) {
	t.Parallel()
	f := newFake(t, "r.example/a:1", "r.example/b:1")
	out := prewarm(t.Context(), f, "plan", "r.example/a:1", "r.example/nosuch:1", "r.example/b:1")
	if out.code != exitFailed || out.stderr != "prewarm: 1 of 3 images failed: r.example/nosuch:1\n" {
		t.Errorf("exit code %d, stderr %q", out.code, out.stderr)
	}
	for _, want := range []string{"r.example/a:1 ", "r.example/b:1 ", "ImageNotFound", "404 Not Found (check the name and the tag)", "total", "4.00 kB"} {
		if !strings.Contains(out.stdout, want) {
			t.Errorf("stdout lacks %q:\n%s", want, out.stdout)
		}
	}
	if len(f.pulls) != 0 || !f.closed {
		t.Errorf("%d pulls, closed %v", len(f.pulls), f.closed)
	}
}

func TestPlanOfOneBadReferenceIsAnErrorAndNoTable(t *testing.T) {
	t.Parallel()
	out := prewarm(t.Context(), newFake(t), "plan", "r.example/nosuch:1")
	if want := "prewarm: r.example/nosuch:1: ImageNotFound: 404 Not Found (check the name and the tag)\n"; out.code != exitFailed || out.stderr != want || out.stdout != "" {
		t.Errorf("exit code %d, stderr %q, stdout %q", out.code, out.stderr, out.stdout)
	}
}

func TestPlanInJSON(t *testing.T) {
	t.Parallel()
	out := prewarm(t.Context(), newFake(t, "r.example/a:1"), "plan", "-o", "json", "r.example/a:1", "r.example/nosuch:1")
	var plan struct {
		Images []struct {
			Image struct{ Reference string }
			Fetch int64
		}
		Errors []struct{ Reference, Reason, Message string }
	}
	if err := json.Unmarshal([]byte(out.stdout), &plan); err != nil {
		t.Fatalf("%s: %v", out.stdout, err)
	}
	if len(plan.Images) != 1 || plan.Images[0].Image.Reference != "r.example/a:1" || plan.Images[0].Fetch != 2000 {
		t.Errorf("images %+v", plan.Images)
	}
	if len(plan.Errors) != 1 || plan.Errors[0].Reference != "r.example/nosuch:1" || plan.Errors[0].Reason != "ImageNotFound" || plan.Errors[0].Message == "" {
		t.Errorf("errors %+v", plan.Errors)
	}
	if out.code != exitFailed || !strings.HasPrefix(out.stderr, "prewarm: r.example/nosuch:1: ImageNotFound") {
		t.Errorf("exit code %d, stderr %q", out.code, out.stderr)
	}
}

func TestPlanOfARuntimeThatGoesAway(t *testing.T) {
	t.Parallel()
	f := newFake(t, "r.example/a:1")
	f.verify["r.example/a:1"] = failure(cri.ReasonRuntimeUnavailable, "r.example/a:1", "connection closed", "check that the container runtime runs")
	out := prewarm(t.Context(), f, "plan", "r.example/a:1")
	if out.code != exitFailed || strings.Count(out.stderr, "connection closed") != 1 || out.stdout != "" {
		t.Errorf("exit code %d, stderr %q, stdout %q", out.code, out.stderr, out.stdout)
	}
}

func TestPlanIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := prewarm(ctx, newFake(t, "r.example/a:1"), "plan", "r.example/a:1", "r.example/b:1")
	if out.code != exitInterrupted || out.stderr != "prewarm: interrupted\n" || out.stdout != "" {
		t.Errorf("exit code %d, stderr %q, stdout %q", out.code, out.stderr, out.stdout)
	}
}
